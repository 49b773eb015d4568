"""Models from the user's own code: a module, a factory, or `file.py:callable` and `package.module:callable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from bnaudit.errors import UsageError
from bnaudit.user_code import load_callable, raised

_WAYS = "give a callable that returns the model alone"


def build_model(given: object, arguments: Mapping[str, object]) -> nn.Module:
    """The model that was handed over, or that a factory returns.

    Raises UsageError when the name leads nowhere or to something that makes no model, UnreadableError when the user's
    code raises.
    """
    name = model_name(given)
    found = load_callable(given) if isinstance(given, str) else given
    if isinstance(found, nn.Module):
        if arguments:
            raise UsageError(f"{name} is a model already and takes no arguments", remedy="leave --model-args out")
        return found
    if not callable(found):
        raise UsageError(f"{name} is {_a(found)} and builds no model", remedy=_WAYS)
    made = _result(found, name, arguments)
    if isinstance(made, nn.Module):
        return made
    if isinstance(made, tuple) and any(isinstance(item, nn.Module) for item in made):
        raise UsageError(f"{name} returned a tuple of {len(made)}", remedy=_WAYS)
    raise UsageError(f"{name} returned {_a(made)} and no torch.nn.Module", remedy=_WAYS)


def model_name(given: object) -> str:
    """What to call the model in a message."""
    if isinstance(given, str):
        return given
    kind = type(given) if isinstance(given, nn.Module) else given
    return str(getattr(kind, "__qualname__", type(given).__qualname__))


def _result(factory: Callable[..., object], name: str, arguments: Mapping[str, object]) -> object:
    try:
        return factory(**arguments)
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError) and error.__traceback__ is not None and error.__traceback__.tb_next is None:
            # raised by the call itself, and by nothing in it
            raise UsageError(
                f"{name} cannot be called: {error}", remedy="give its arguments as --model-args"
            ) from error
        raise raised(f"calling {name}", error) from error


def _a(value: object) -> str:
    return "None" if value is None else f"an object of class {type(value).__qualname__}"
