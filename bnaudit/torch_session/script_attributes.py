"""The state of TorchScript modules: attributes that live in C++ and are no parameters and no buffers."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from bnaudit.torch_session.digests import digest, is_same
from bnaudit.torch_session.held_containers import Difference
from bnaudit.torch_session.places import Held

_NAMES = re.compile(r"\.([A-Za-z_]\w*)")
_FLAGS = ("_is_full_backward_hook",)


def is_script(module: nn.Module) -> bool:
    """Whether a module was scripted, traced or loaded with torch.jit.load."""
    return isinstance(module, torch.jit.ScriptModule) and hasattr(module, "_c")


def mentioned_names(model: nn.Module) -> frozenset[str]:
    """Everything that the code of a model's scripted modules calls an attribute.

    TorchScript has no list of attributes; one that no code mentions is neither read nor written.
    """
    names = {"training"}
    for module in model.modules():
        names.update(_NAMES.findall(_code(module)))
    return frozenset(names)


def _code(module: nn.Module) -> str:
    if not is_script(module):
        return ""
    owner: Any = module._c
    try:
        return str(owner.code)
    except RuntimeError:  # a module without a method that has code
        return ""


class HeldScript:
    """Attributes of one scripted module."""

    __slots__ = ("_module", "_old", "held")

    def __init__(self, module: nn.Module, held: Held, names: Iterable[str]) -> None:
        inner: Any = module._c
        self._module = inner
        self.held = held
        there = [name for name in sorted(names) if inner.hasattr(name) and name not in _FLAGS]
        self._old = {name: _kept(value) for name, value in _readable(inner, there)}

    def objects(self) -> Iterator[tuple[str, object]]:
        """The tensors among them, whose contents are kept apart."""
        return ((name, value) for name, value in self._old.items() if isinstance(value, torch.Tensor))

    def is_changed(self) -> bool:
        return any(True for _ in self.differences())

    def differences(self) -> Iterator[Difference]:
        for name, old in self._old.items():
            new = self._module.getattr(name)
            if not _equal(old, new):
                yield Difference(f".{name}", old, new)

    def restore(self) -> None:
        for difference in list(self.differences()):
            self._module.setattr(difference.suffix[1:], _kept(difference.old))


def _readable(inner: Any, names: Iterable[str]) -> Iterator[tuple[str, object]]:
    """Those whose values Python can be given: not the members of an enum and the objects of a script class that stand
    in a file, where the class is TorchScript's alone. Should one of them change, repeats of a batch would differ."""
    for name in names:
        try:
            yield name, inner.getattr(name)
        except RuntimeError as error:
            if "Unknown reference to ScriptClass" not in str(error):
                raise


def _kept(value: Any) -> Any:
    """Lists and dicts come as copies of the C++ ones; the tensors in them do not."""
    return value if isinstance(value, torch.Tensor) or not _is_data(value) else copy.deepcopy(value)


def _is_data(value: object) -> bool:
    return isinstance(value, (list, dict, tuple))


def _equal(old: object, new: object) -> bool:
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return old is new or old.is_set_to(new)
    if is_same(old, new):
        return True
    if not _is_data(old) or not _is_data(new):
        return type(old) is type(new) and not isinstance(old, (int, float, str, bool, type(None), torch.Tensor))
    return digest(old) == digest(new)
