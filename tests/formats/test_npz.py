"""NumPy archives against what numpy.load makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from state_dicts import assert_norms_equal, describe, state_dicts

from bnaudit.errors import MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.tensors.npy_header import NpyTensor


@given(tensors=state_dicts(), compressed=st.booleans())
def test_names_dtypes_and_values_are_those_that_numpy_loads(
    tensors: dict[str, torch.Tensor], compressed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "weights.npz"
    plain = {name: t.float() if t.dtype is torch.bfloat16 else t for name, t in tensors.items()}
    arrays = {name: t.numpy() for name, t in plain.items()} | {"fc.weight": np.zeros((2, 2))}
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    with np.load(path) as stored:
        loaded = {name: torch.from_numpy(stored[name]) for name in stored.files}
    description = describe(path)
    assert_norms_equal(description.parts[0], loaded)
    assert (description.artifact.format, description.gaps) == ("NumPy .npz", ())


def test_names_of_keras_are_batch_norms(tmp_path: Path) -> None:
    path = tmp_path / "keras.npz"
    np.savez(path, **{f"bn/{leaf}:0": np.ones(3) for leaf in ("gamma", "beta", "moving_mean", "moving_variance")})
    (layer,) = describe(path).parts[0].layers
    assert (layer.name, len(layer.tensors)) == ("bn", 4)


def test_an_array_of_objects_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "objects.npz"
    np.savez(path, params=np.array({"bn.weight": np.ones(3)}, dtype=object))
    (gap,) = describe(path).gaps
    assert gap.where == "params" and "run code" in gap.why


def test_long_compressed_arrays_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "big.npz"
    np.savez_compressed(
        path, **{"conv.weight": np.zeros((800, 800)), "bn.running_mean": np.ones(3), "bn.weight": np.ones(3)}
    )
    description = describe(path)
    assert description.artifact.bytes_read < 20_000 and description.parts[0].tensors == 3
    assert [layer.name for layer in description.parts[0].layers] == ["bn"]


def tensor(folder: Path, data: bytes) -> NpyTensor:
    path = folder / "a.npy"
    path.write_bytes(data)
    return NpyTensor(ByteSource.open(path))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_version_and_order_of_npy(tmp_path: Path, version: tuple[int, int], order: str) -> None:
    array = np.asarray(np.arange(6).reshape(2, 3), dtype=">i2", order=order)  # type: ignore[call-overload]
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    ref = tensor(tmp_path, (tmp_path / "x.npy").read_bytes())
    assert (ref.dtype, ref.shape) == ("int16", (2, 3))
    np.testing.assert_array_equal(ref.load(), array)


def header(text: str, values: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + values


@pytest.mark.parametrize(
    "data",
    [
        b"\x93NUMPY",
        b"nothing like it at all",
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", b"\0" * 11),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
        header("{'descr': '<f4', 'fortran_order': __import__('os'), 'shape': (3,)}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 40 + ")}", b"\0" * 4),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1" * 5_000 + "x)}"),
        header("{'descr': '<f4'" + " " * 20_000 + "}"),
    ],
)
def test_a_lying_header_is_one_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(MalformedError):
        tensor(tmp_path, data)
