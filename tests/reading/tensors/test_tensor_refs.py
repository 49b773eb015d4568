"""Shapes that NumPy gives no array are refused before it is asked, in every container that states shapes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import bnaudit
from bnaudit.description import StoredTensor
from bnaudit.errors import MalformedError
from bnaudit.reading.tensors.tensor_refs import check_extents

ABSURD = (0, 2**40, 2**40)
"""Empty, so that no byte is missing, and still more than NumPy can count."""


@given(shape=st.lists(st.sampled_from((0, 1, 2, 7, 2**20, 2**40, 2**62)), max_size=40).map(tuple))
def test_what_is_let_through_is_a_shape_that_numpy_makes(shape: tuple[int, ...]) -> None:
    try:
        check_extents(shape)
    except MalformedError:
        return
    if 0 in shape:
        assert np.ndarray(shape, "<f8", b"").shape == shape


def test_ordinary_shapes_and_the_longest_are_let_through() -> None:
    for shape in ((), (0,), (64,), (1, 64, 1, 1), (2,) * 32, (2**47,)):
        check_extents(shape)
    for shape in ((1,) * 33, (2**48,), ABSURD):
        with pytest.raises(MalformedError):
            check_extents(shape)


def safetensors(path: Path) -> None:
    line = {"dtype": "F32", "shape": ABSURD, "data_offsets": (0, 0)}
    text = json.dumps({"bn.running_mean": line, "bn.running_var": line}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


def npz(path: Path) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {ABSURD}}}\n".encode()
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bn.running_mean.npy", array)
        archive.writestr("bn.running_var.npy", array)


def onnx_empty(path: Path) -> None:
    onnx_with(path, ABSURD, b"")


def onnx_of_many_axes(path: Path) -> None:
    onnx_with(path, (1,) * 100_000, bytes(4))


def onnx_with(path: Path, shape: tuple[int, ...], raw: bytes) -> None:
    names = ["scale", "bias", "mean", "var"]
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    weights = [TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, raw_data=raw) for name in names]
    graph = helper.make_graph([node], "g", [x], [], weights)
    path.write_bytes(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize("write", [safetensors, npz, onnx_empty, onnx_of_many_axes])
def test_a_norm_of_absurd_sizes_is_a_gap(write: object, tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path)  # type: ignore[operator]
    description = bnaudit.describe(path)
    tensors: list[StoredTensor] = [tensor for _, layer in description.layers for tensor in layer.tensors]
    assert tensors and all(tensor.unread for tensor in tensors)
    assert any("absurd" in gap.why for gap in description.gaps)
