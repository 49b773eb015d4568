"""The norm layers and modes of a live model, described as the reader describes a pickle of it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from bnaudit.description import Part
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.modules.tree import describe_module
from bnaudit.reading.torchscript.archive import ScriptArchive
from bnaudit.reading.torchscript.part import script_part
from bnaudit.records import replace
from bnaudit.torch_session.live_tensors import LiveTensors
from bnaudit.torch_session.script_attributes import is_script
from bnaudit.torch_session.stand_ins import StandIns


def live_part(model: nn.Module, name: str = "", *, skip: frozenset[str] = frozenset()) -> Part:
    """The model as the part called `name`. Layers carry the names of `model.named_modules()`.

    skip: attributes of modules that are no part of the model.

    Raises CapExceededError for a model with more norm layers than a reading allows.
    """
    if is_script(model):
        return replace(_saved_script(model), name=name)
    part, _ = describe_module(StandIns(skip).of(model), LiveTensors(), name)
    return part


def _saved_script(model: nn.Module) -> Part:
    """TorchScript says what it computes in its archive only."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.jit.save(model, str(path))
        with ByteSource.open(path) as source:
            return script_part(ScriptArchive(source), source)
