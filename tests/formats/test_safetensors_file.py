"""safetensors files against what the safetensors library makes of them, and headers that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from state_dicts import assert_norms_equal, batch_norm, describe, state_dicts

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.safetensors_header import SafetensorsFile


@given(tensors=state_dicts())
def test_names_dtypes_and_values_are_those_that_the_library_loads(
    tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    save_file(tensors | {"head.weight": torch.zeros(2, 2)}, path, metadata={"format": "pt"})
    description = describe(path)
    assert_norms_equal(description.parts[0], load_file(path))
    assert (description.artifact.format, description.artifact.producer) == ("safetensors", "PyTorch")
    assert description.gaps == ()


_DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


@pytest.mark.parametrize("dtype", _DTYPES)
def test_every_dtype_is_exact(tmp_path: Path, dtype: torch.dtype) -> None:
    bits = (np.arange(256) % (2 if dtype is torch.bool else 256)).astype(np.uint8)
    value = torch.from_numpy(np.repeat(bits, 8 if dtype is not torch.bool else 1)).view(dtype)
    path = tmp_path / "d.safetensors"
    save_file({"other": torch.zeros(3), "x": value, "empty": value[:0]}, path)
    with ByteSource.open(path) as source:
        file = SafetensorsFile(source)
        ref = file.tensors["x"]
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        np.testing.assert_array_equal(ref.load(), value.to(wide).numpy())
        assert (ref.dtype, ref.shape) == (str(dtype).removeprefix("torch."), tuple(value.shape))
        assert file.tensors["empty"].load().shape == (0,)


def test_neighbours_are_read_together_and_nothing_else_is(tmp_path: Path) -> None:
    tensors: dict[str, torch.Tensor] = {"a.weight": torch.zeros(1000, 500)}
    for i in range(20):
        tensors |= batch_norm(f"bn{i}", 64, torch.float32, i)
    path = tmp_path / "m.safetensors"
    save_file(tensors, path)
    norms = sum(t.numel() * t.element_size() for name, t in tensors.items() if name != "a.weight")
    header_size = int.from_bytes(path.read_bytes()[:8], "little")
    artifact = describe(path).artifact
    assert artifact.bytes_read == 4096 + 8 + header_size + norms  # the first bytes say which format it is


def raw(path: Path, header: str | dict[str, Any], data: bytes = b"", length: int | None = None) -> Path:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def line(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


_LIES: dict[str, tuple[str | dict[str, Any], bytes]] = {
    "overlap": ({"a": line(), "b": line(offsets=(4, 12))}, bytes(12)),
    "hole": ({"a": line(), "b": line(offsets=(12, 20))}, bytes(20)),
    "beyond the file": ({"a": line(offsets=(0, 8))}, bytes(4)),
    "bytes that nobody owns": ({"a": line()}, bytes(12)),
    "another size than the shape": ({"a": line(shape=(3,))}, bytes(8)),
    "backwards": ({"a": line(shape=(0,), offsets=(8, 0))}, bytes(8)),
    "negative offset": ({"a": line(offsets=(-8, 0))}, bytes(8)),
    "negative shape": ({"a": line(shape=(-1, -2))}, bytes(8)),
    "huge shape": ({"a": line(shape=(2**62, 2**62, 4))}, bytes(8)),
    "fractional shape": ({"a": line(shape=(2.0,))}, bytes(8)),
    "bool shape": ({"a": line(shape=(True, 2))}, bytes(8)),
    "unknown dtype": ({"a": line(dtype="F31")}, bytes(8)),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
    "three offsets": ({"a": line(offsets=(0, 4, 8))}, bytes(8)),
    "a name twice": ('{"a": %s, "a": %s}' % ((json.dumps(line()),) * 2), bytes(8)),
    "a list": ("[1, 2]", b""),
    "text": ('{"a": "b"}', b""),
    "no JSON": ('{"a"', b""),
    "no UTF-8": ('{"\udcff": 1}'.encode("utf-8", "surrogateescape").decode("latin-1"), b""),
    "metadata of numbers": ({"__metadata__": {"a": 1}, "a": line()}, bytes(8)),
    "deep": ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", b""),
    "a giant integer": ('{"a": ' + "9" * 10_000 + "}", b""),
}


@pytest.mark.parametrize("lie", _LIES)
def test_a_header_that_lies_is_one_error(tmp_path: Path, lie: str) -> None:
    path = raw(tmp_path / "lie.safetensors", *_LIES[lie])
    with pytest.raises(UnreadableError, match=r"^[^\n]+$"):
        describe(path)
    if lie != "a name twice":  # the library lets the last one win, against its own specification
        with pytest.raises(SafetensorError), safe_open(path, "np") as file:
            file.keys()


def test_a_header_longer_than_the_file_or_the_cap_is_one_error(tmp_path: Path) -> None:
    path = raw(tmp_path / "long.safetensors", {"a": line()}, bytes(8), length=10**6)
    with pytest.raises(MalformedError):
        describe(path)
    with pytest.raises(CapExceededError, match="header_bytes"):
        describe(path, Caps(header_bytes=10**5))


@pytest.mark.parametrize("size", [9, 10, 20, 60, 300])
def test_a_truncated_file_is_one_error(tmp_path: Path, size: int) -> None:
    save_file(batch_norm("bn", 4, torch.float32, 1), tmp_path / "whole.safetensors")
    path = tmp_path / "cut.safetensors"
    path.write_bytes((tmp_path / "whole.safetensors").read_bytes()[:size])
    with pytest.raises(UnreadableError, match=r"^[^\n]+$"):
        describe(path)
