"""NumPy arrays in pickles against NumPy itself."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sources import MemoryFiles

from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import Call
from bnaudit.reading.tensors.numpy_arrays import numpy_tensor
from bnaudit.reading.tensors.tensor_refs import TensorRef

FILES = MemoryFiles()
DTYPES = st.one_of(
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(sizes=(8, 16, 32)),
    st.just(np.dtype(bool)),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


def found(data: bytes) -> TensorRef:
    value = run(FILES.source(data)).root
    assert isinstance(value, Call)
    ref = numpy_tensor(value)
    assert ref is not None
    return ref


def assert_equal(ref: TensorRef, array: np.ndarray) -> None:  # type: ignore[type-arg]
    values = ref.load()
    assert ref.dtype == array.dtype.newbyteorder("=").name
    assert ref.shape == array.shape == values.shape
    np.testing.assert_array_equal(values, array.astype(np.float64 if array.dtype.kind in "fV" else np.int64))


@given(array=ARRAYS, protocol=st.sampled_from(range(6)), fortran=st.booleans(), sliced=st.booleans())
def test_equals_the_array(array: np.ndarray, protocol: int, fortran: bool, sliced: bool) -> None:  # type: ignore[type-arg]
    array = np.asfortranarray(array) if fortran else array
    array = array[..., ::2] if sliced and array.ndim else array

    assert_equal(found(pickle.dumps(array, protocol)), array)


@pytest.mark.parametrize("protocol", range(6))
def test_reads_long_arrays(protocol: int) -> None:
    array = np.random.default_rng(0).normal(size=(30, 100)).astype(np.float32)

    assert_equal(found(pickle.dumps(array, protocol)), array)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("scalar", [np.float32(1.5), np.int64(-3), np.float16(0.1), np.bool_(True)])
def test_reads_scalars(scalar: np.generic, protocol: int) -> None:
    ref = found(pickle.dumps(scalar, protocol))

    assert ref.shape == ()
    assert ref.load() == scalar
    assert ref.dtype == scalar.dtype.name


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_reads_ml_dtypes(name: str, protocol: int) -> None:
    array = np.array([1.0, -2.5, 0.0, 100.0], getattr(ml_dtypes, name))

    assert_equal(found(pickle.dumps(array, protocol)), array)


def test_reads_what_numpy_1_and_python_2_wrote() -> None:
    # NumPy 1's module names; Python 2.7: pickle.dumps(numpy.array([1, 2], "f4"), 2) with str data.
    old = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03"
        b"(K\x01K\x02\x85cnumpy\ndtype\nq\x04U\x02f4K\x00K\x01\x87Rq\x05(K\x03U\x01<NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89U\x08\x00\x00\x80?\x00\x00\x00@tb."
    )
    assert pickle.loads(old, encoding="latin1").tolist() == [1, 2]

    assert found(old).load().tolist() == [1, 2]


def test_reads_numpy_1_protocol_5() -> None:
    data = pickle.dumps(np.arange(6.0).reshape(2, 3), 5)
    assert b"numpy._core.numeric" in data
    # A stack-global's length byte counts the name: keep it.
    old = data.replace(b"\x8c\x13numpy._core.numeric", b"\x8c\x12numpy.core.numeric")

    assert found(old).load().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "array", [np.array([None, 1]), np.array([(1, 2.0)], "i4,f4"), np.array(["text"]), np.ones(2, complex)]
)
def test_other_arrays_are_unreadable(array: np.ndarray) -> None:  # type: ignore[type-arg]
    ref = found(pickle.dumps(array, 4))

    assert ref.shape == array.shape
    with pytest.raises(UnreadableError):
        ref.load()


def test_sizes_that_lie_are_malformed() -> None:
    data = pickle.dumps(np.arange(3.0), 2)
    for lie in (b"K\x04\x85", b"J\xff\xff\xff\xff\x85", b"J\xff\xff\xff\x7f\x85", b"(" + b"K\x01" * 200 + b"t"):
        with pytest.raises(MalformedError):
            found(data.replace(b"K\x03\x85", lie)).load()


def test_sizes_that_no_array_has_are_malformed() -> None:
    huge, large = b"\x8a\x09" + (1 << 70).to_bytes(9, "little"), b"\x8a\x06" + (1 << 40).to_bytes(6, "little")
    one, empty = pickle.dumps(np.arange(1.0), 2), pickle.dumps(np.empty(0), 2)
    for lie in (b"K\x00" + huge + b"\x86", b"K\x00" + large + large + b"\x87", b"\x89\x85"):
        with pytest.raises(MalformedError):
            found(empty.replace(b"K\x00\x85", lie)).load()
    with pytest.raises(MalformedError):
        found(one.replace(b"K\x01\x85", b"\x88\x85")).load()


def test_an_array_without_a_state_is_malformed() -> None:
    with pytest.raises(MalformedError):
        found(b"cnumpy.core.multiarray\n_reconstruct\n)R.").load()


def test_text_that_is_not_latin1_is_malformed() -> None:
    data = pickle.dumps(np.arange(1, dtype=np.uint8), 3).replace(b"C\x01\x00", b"X\x03\x00\x00\x00\xe2\x82\xac")
    with pytest.raises(MalformedError):
        found(data).load()


def test_other_calls_are_no_arrays() -> None:
    value = run(FILES.source(b"cm\nf\n)R.")).root
    assert isinstance(value, Call) and numpy_tensor(value) is None
