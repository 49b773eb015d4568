"""Saves modules with torch and reads them with bnaudit, so that tests compare the two."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from bnaudit.description import Gap, Part
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.torch_archive import read_archive
from bnaudit.reading.modules.objects import PickledModule, as_module
from bnaudit.reading.modules.tree import describe_module
from bnaudit.reading.pickles.legacy_stream import LegacyStream
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import Call
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors


def describe_saved(saved: object, folder: Path, *, legacy: bool = False) -> tuple[Part, tuple[Gap, ...]]:
    """`torch.save` the module, then `describe_module` what is in the file."""
    path = folder / "saved.pt"
    torch.save(saved, path, _use_new_zipfile_serialization=not legacy)
    with ByteSource.open(path) as source:
        if legacy:
            stream = LegacyStream(source)
            root, tensors = stream.root, TorchTensors(stream.storages)
        else:
            pickled, tensors = read_archive(source)
            root = pickled.root
        assert isinstance(root, Call)
        return describe_module(root, tensors, "")


def part_of(saved: object, folder: Path, *, legacy: bool = False) -> Part:
    """As `describe_saved`, for files in which nothing may be left unread."""
    part, gaps = describe_saved(saved, folder, legacy=legacy)
    assert gaps == ()
    return part


class NoTensors:
    """For pickles without tensors."""

    def tensor(self, value: object) -> TensorRef | None:
        """No stand-in is a tensor."""
        return None


def unpickled(data: bytes, folder: Path) -> object:
    """What our machine makes of the bytes of a pickle."""
    path = folder / "assembled.pkl"
    path.write_bytes(data)
    with ByteSource.open(path) as source:
        return run(source).root


def viewed(module: nn.Module, folder: Path) -> PickledModule:
    """One module as its readers see it."""
    path = folder / "viewed.pt"
    torch.save(module, path)
    with ByteSource.open(path) as source:
        view = as_module(read_archive(source)[0].root)
    assert view is not None
    return view
