"""Damaged checkpoints of every format: a description or one clear error, never anything else."""

from __future__ import annotations

import io
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save
from sources import MemoryFiles
from state_dicts import batch_norm
from torch import nn

from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.errors import BnauditError
from bnaudit.formats import Candidate, Format, npz, numpy_pickle, safetensors_file, torch_legacy, torch_zip

_CAPS = Caps(pickle_opcodes=200_000, value_bytes=1 << 20, tensor_bytes=8 << 20, header_bytes=4 << 20)
_CASES = 300


def _tensors() -> dict[str, torch.Tensor]:
    return batch_norm("a.bn", 5, torch.float32, 1) | batch_norm("b", 3, torch.bfloat16, 2) | {"w": torch.zeros(3, 3)}


def _saved(value: object, **options: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def _arrays() -> dict[str, np.ndarray]:
    return {name: t.float().numpy() for name, t in _tensors().items()}


def _npz(writer: object) -> bytes:
    stream = io.BytesIO()
    writer(stream, **_arrays())  # type: ignore[operator]
    return stream.getvalue()


def _checkpoint() -> dict[str, object]:
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Dropout())
    return {"model": net, "state_dict": net.state_dict(), "optimizer": torch.optim.Adam(net.parameters()).state_dict()}


_SUBJECTS: dict[str, tuple[Format, bytes]] = {
    "zip": (torch_zip.FORMAT, _saved(_tensors())),
    "zip of a checkpoint": (torch_zip.FORMAT, _saved(_checkpoint())),
    "legacy": (torch_legacy.FORMAT, _saved(_checkpoint(), _use_new_zipfile_serialization=False)),
    "pickle": (numpy_pickle.FORMAT, pickle.dumps({"model": _arrays()}, 2)),
    "pickle of protocol 0": (numpy_pickle.FORMAT, pickle.dumps({"model": _arrays()}, 0)),
    "pickle of tensors": (numpy_pickle.FORMAT, pickle.dumps(_tensors())),
    "npz": (npz.FORMAT, _npz(np.savez)),
    "compressed npz": (npz.FORMAT, _npz(np.savez_compressed)),
    "safetensors": (safetensors_file.FORMAT, save(_tensors())),
}


def _outcome(subject: Format, files: MemoryFiles, data: bytes) -> str:
    """What reading gives: `read`, `not claimed`, or the one sentence of the error."""
    try:
        candidate = Candidate(Path("damaged.bin"), files.source(data))
        if not subject.claims(candidate):
            return "not claimed"
        assert isinstance(subject.read(candidate), Description)
    except BnauditError as error:
        assert str(error) and "\n" not in str(error)
        return str(error)
    return "read"


@pytest.mark.parametrize("name", _SUBJECTS)
def test_an_undamaged_file_is_read(name: str) -> None:
    assert _outcome(_SUBJECTS[name][0], MemoryFiles(_CAPS), _SUBJECTS[name][1]) == "read"


@pytest.mark.parametrize("name", _SUBJECTS)
def test_truncation_at_any_length(name: str) -> None:
    subject, data = _SUBJECTS[name]
    files = MemoryFiles(_CAPS)
    lengths = {*range(0, 64), *range(0, len(data), max(len(data) // _CASES, 1)), *range(len(data) - 64, len(data))}
    outcomes = {_outcome(subject, files, data[:length]) for length in lengths}
    assert "read" not in outcomes
    assert len(outcomes) > 1


@pytest.mark.parametrize("name", _SUBJECTS)
def test_flipped_bytes(name: str) -> None:
    subject, data = _SUBJECTS[name]
    files = MemoryFiles(_CAPS)
    choose = random.Random(name)
    for _ in range(_CASES):
        damaged = bytearray(data)
        for _ in range(choose.choice((1, 1, 2, 8))):
            damaged[choose.randrange(len(data))] = choose.choice((0, 255, choose.randrange(256)))
        _outcome(subject, files, bytes(damaged))


@pytest.mark.parametrize("name", _SUBJECTS)
def test_moved_and_repeated_pieces(name: str) -> None:
    subject, data = _SUBJECTS[name]
    files = MemoryFiles(_CAPS)
    choose = random.Random(name)
    for _ in range(_CASES // 2):
        start, length = choose.randrange(len(data)), choose.randrange(1, 40)
        target = choose.randrange(len(data))
        damaged = data[:target] + data[start : start + length] + data[target + choose.choice((0, length)) :]
        _outcome(subject, files, damaged)
