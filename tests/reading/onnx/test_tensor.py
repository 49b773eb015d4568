"""TensorProto in every storage and type, held to onnx.numpy_helper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.protobuf_wire import WireReader
from bnaudit.reading.onnx.tensor import OnnxTensor, SparseTensor, read_sparse_tensor, read_tensor
from bnaudit.records import replace

T = onnx.TensorProto
PLAIN = [T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT8, T.INT16, T.INT32, T.INT64]
PLAIN += [T.UINT8, T.UINT16, T.UINT32, T.UINT64, T.BOOL, T.INT4, T.UINT4]
NAMES = {T.FLOAT: "float32", T.DOUBLE: "float64", T.FLOAT16: "float16", T.BFLOAT16: "bfloat16", T.BOOL: "bool"}


@contextmanager
def opened(data: bytes, folder: Path, read: Callable[..., Any], caps: Caps | None = None) -> Iterator[Any]:
    path = folder / "tensor"
    path.write_bytes(data)
    with ByteSource.open(path, caps) as source, ExternalFiles(source) as files:
        yield read(WireReader(source), files, 0, source.size)


def loaded(proto: onnx.TensorProto | bytes, folder: Path, caps: Caps | None = None) -> Any:
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    with opened(data, folder, read_tensor, caps) as tensor:
        return tensor.load()


def expected(proto: onnx.TensorProto) -> Any:
    array = numpy_helper.to_array(proto)
    floating = proto.data_type in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)
    return (
        array.astype(np.float32).astype(np.float64)
        if proto.data_type == T.BFLOAT16
        else array.astype(np.float64 if floating else np.int64)
    )


@pytest.mark.parametrize("code", PLAIN, ids=lambda code: helper.tensor_dtype_to_string(code).split(".")[1])
@pytest.mark.parametrize("raw", [False, True], ids=["typed", "raw"])
def test_every_plain_type_reads_as_onnx_reads_it(code: int, raw: bool, tmp_path: Path) -> None:
    numbers = np.array([0, 1, 3, 7, 5, 2]) if code != T.BOOL else np.array([0, 1, 1, 0, 1, 0])
    if code in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16):
        numbers = np.array([0.1, -1.5, 3e-5, np.inf, np.nan, 1.0])
    array = numbers.astype(helper.tensor_dtype_to_np_dtype(code)).reshape(2, 3)
    proto = numpy_helper.from_array(array, "t")
    if not raw:
        proto = helper.make_tensor("t", code, (2, 3), array.reshape(-1))
    assert proto.data_type == code
    assert proto.HasField("raw_data") is raw
    found = loaded(proto, tmp_path)
    np.testing.assert_array_equal(found, expected(proto))
    assert found.dtype == (np.float64 if code in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16) else np.int64)
    with opened(proto.SerializeToString(), tmp_path, read_tensor) as tensor:
        assert (tensor.name, tensor.shape) == ("t", (2, 3))
        assert tensor.dtype == NAMES.get(code, helper.tensor_dtype_to_np_dtype(code).name)


@given(numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20), wide=st.booleans())
def test_negative_integers_survive_both_storages(numbers: list[int], wide: bool, tmp_path: Path) -> None:
    code = T.INT64 if wide else T.INT32
    proto = helper.make_tensor("t", code, (len(numbers),), numbers)
    assert loaded(proto, tmp_path).tolist() == numbers


@given(numbers=st.lists(st.floats(width=32, allow_nan=False), max_size=20))
def test_numbers_that_are_not_packed_are_read(numbers: list[float], tmp_path: Path) -> None:
    """Writers before proto3 store one field per number."""
    packed = helper.make_tensor("t", T.FLOAT, (len(numbers),), numbers)
    single = b"".join(b"\x25" + np.float32(number).tobytes() for number in numbers)
    del packed.float_data[:]
    assert loaded(packed.SerializeToString() + single, tmp_path).tolist() == numbers


def test_dims_that_are_packed_are_read(tmp_path: Path) -> None:
    data = b"\x0a\x02\x02\x03" + b"\x10\x01" + b"\x4a\x18" + np.arange(6, dtype=np.float32).tobytes()
    assert loaded(data, tmp_path).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_scalar_and_an_empty_tensor(tmp_path: Path) -> None:
    assert loaded(numpy_helper.from_array(np.float32(2.5)), tmp_path).tolist() == 2.5
    assert loaded(numpy_helper.from_array(np.zeros((0, 4), np.float32)), tmp_path).shape == (0, 4)


def sparse(indices: Any, shape: tuple[int, ...]) -> onnx.SparseTensorProto:
    values = helper.make_tensor("s", T.FLOAT, (2,), [1.5, -2.0])
    where = helper.make_tensor("i", T.INT64, np.shape(indices), np.ravel(indices))
    return helper.make_sparse_tensor(values, where, shape)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]], ids=["linear", "coordinates"])
def test_sparse_tensors_come_dense(indices: Any, tmp_path: Path) -> None:
    with opened(sparse(indices, (2, 3)).SerializeToString(), tmp_path, read_sparse_tensor) as tensor:
        assert isinstance(tensor, SparseTensor)
        assert (tensor.name, tensor.dtype, tensor.shape) == ("s", "float32", (2, 3))
        assert tensor.load().tolist() == [[0, 1.5, 0], [0, 0, -2.0]]


@pytest.mark.parametrize("indices", [[1, 6], [-9, 0], [[0, 1], [2, 2]]])
def test_sparse_indices_that_do_not_fit_are_malformed(indices: Any, tmp_path: Path) -> None:
    data = sparse(indices, (2, 3)).SerializeToString()
    with opened(data, tmp_path, read_sparse_tensor) as tensor, pytest.raises(MalformedError, match="indices"):
        tensor.load()


def raw_tensor(shape: list[int], data: bytes, code: int = T.FLOAT) -> onnx.TensorProto:
    return onnx.TensorProto(dims=shape, data_type=code, name="t", raw_data=data)


@pytest.mark.parametrize(
    "proto",
    [
        raw_tensor([4], bytes(12)),
        raw_tensor([4], bytes(20)),
        raw_tensor([-1], bytes(4)),
        raw_tensor([3], b"", T.INT4),
        onnx.TensorProto(dims=[2], data_type=T.FLOAT, float_data=[1.0]),
        onnx.TensorProto(dims=[2], data_type=T.FLOAT),
        onnx.TensorProto(dims=[2], data_type=T.INT4, int32_data=[1, 2]),
    ],
)
def test_tensors_that_contradict_themselves_are_malformed(proto: onnx.TensorProto, tmp_path: Path) -> None:
    with pytest.raises(MalformedError):
        loaded(proto, tmp_path)


def test_a_shape_that_no_file_could_hold_makes_no_array(tmp_path: Path) -> None:
    with pytest.raises(CapExceededError, match="value_bytes"):
        loaded(raw_tensor([2**40, 2**40], bytes(4)), tmp_path)


def test_a_tensor_above_the_cap_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(CapExceededError, match="value_bytes"):
        loaded(raw_tensor([1000], bytes(4000)), tmp_path, replace(Caps(), value_bytes=2000))


@pytest.mark.parametrize("code", [T.STRING, T.COMPLEX64, T.FLOAT8E4M3FN, T.FLOAT4E2M1, T.UNDEFINED, 99])
def test_types_that_norm_tensors_do_not_have_are_unreadable(code: int, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="are not read"):
        loaded(raw_tensor([1], bytes(8), code), tmp_path)


def test_unsigned_integers_above_the_signed_range_are_unreadable(tmp_path: Path) -> None:
    proto = helper.make_tensor("t", T.UINT64, (1,), [2**63])
    with pytest.raises(UnreadableError, match="2\\^63"):
        loaded(proto, tmp_path)


def test_reading_the_header_does_not_read_the_values(tmp_path: Path) -> None:
    path = tmp_path / "tensor"
    path.write_bytes(raw_tensor([1 << 20], bytes(4 << 20)).SerializeToString())
    with ByteSource.open(path) as source, ExternalFiles(source) as files:
        tensor = read_tensor(WireReader(source), files, 0, source.size)
        assert isinstance(tensor, OnnxTensor)
        assert source.bytes_read <= 2048
