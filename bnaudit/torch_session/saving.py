"""Saving a model the usual way, and loading it again as production would."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from bnaudit.errors import UnreadableError
from bnaudit.session import NotPossibleError
from bnaudit.torch_session.factories import build_model
from bnaudit.torch_session.failures import first_line
from bnaudit.torch_session.model_contents import Content, model_contents
from bnaudit.torch_session.modes import kept_modes
from bnaudit.torch_session.pickled import load_module
from bnaudit.torch_session.surroundings import quiet
from bnaudit.torch_session.wrappers import unwrapped
from bnaudit.user_code import raised


class Loaded(NamedTuple):
    """A model that came back."""

    model: nn.Module
    refused: tuple[str, ...]
    """Tensors that were saved and found no place, and places that got none."""


def save(model: nn.Module, path: Path, *, whole: bool) -> None:
    """`torch.save` of its state_dict, or of the module itself. Raises NotPossibleError."""
    try:
        with quiet():
            torch.save(model if whole else unwrapped(model).state_dict(), path)
    except Exception as error:
        raise NotPossibleError(f"torch.save raised {type(error).__name__}: {first_line(error)}") from error


def load(path: Path, factory: str, arguments: Mapping[str, Any], seed: int) -> Loaded:
    """The factory's model with the state in it; without a factory the module that was saved whole.

    Random generators begin from `seed`, so that what a factory draws is not what it drew before. Raises UsageError and
    UnreadableError.
    """
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    random.seed(seed)
    with quiet():
        if not factory:
            return Loaded(load_module(path, "", "cpu"), ())
        model = build_model(factory, arguments)
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            missing, unexpected = unwrapped(model).load_state_dict(state, strict=False)
        except Exception as error:
            raise raised("loading what was saved", error) from error
    refused = (*(f"{name} (no place for it)" for name in unexpected), *(f"{name} (not saved)" for name in missing))
    return Loaded(model, refused)


def in_eval(model: nn.Module) -> dict[str, Content]:
    """What the model holds after eval(); its modes are put back. Raises UnreadableError when eval() raises."""
    with kept_modes(model):
        try:
            model.eval()
        except Exception as error:
            raise raised("calling eval() of the model", error) from error
        return model_contents(model)


def check_is_module(model: object) -> None:
    """Raises UnreadableError for what has no state_dict that goes into a factory's model."""
    if not isinstance(model, nn.Module) or isinstance(model, (torch.jit.ScriptModule, torch.fx.GraphModule)):
        what = f"a {type(model).__name__} carries its own code: saving its weights alone is no round trip"
        raise UnreadableError(what, remedy="give a module, or the factory that builds it")
