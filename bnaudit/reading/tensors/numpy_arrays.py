"""NumPy arrays and scalars in a pickle, as NumPy 1 and 2 write them under every protocol, without making one."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.reading.pickles.stand_ins import Call, Global, LazyBytes
from bnaudit.reading.tensors.element_types import element_bytes, raw_type, widen
from bnaudit.reading.tensors.strided_tensor import UnreadableTensor, is_extent
from bnaudit.reading.tensors.tensor_refs import MOST_AXES, TensorRef, check_extents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MODULES = frozenset(
    f"numpy.{core}.{module}" for core in ("core", "_core") for module in ("multiarray", "numeric", "_multiarray_umath")
)
_DTYPES = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "b1": "bool",
    "c8": "complex64",
    "c16": "complex128",
}
_ML_DTYPES = frozenset(
    ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
)


class ArrayTensor(TensorRef):
    """A NumPy array whose bytes stand in the pickle."""

    __slots__ = ("_big_endian", "_data", "_order")

    def __init__(
        self, dtype: str, shape: tuple[int, ...], data: object, *, big_endian: bool, fortran: bool, identity: object
    ) -> None:
        super().__init__(dtype, shape, identity=identity)
        self._data = data
        self._big_endian = big_endian
        self._order: Literal["C", "F"] = "F" if fortran else "C"

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values; see TensorRef."""
        import numpy as np

        code = raw_type(self.dtype, self._big_endian)
        check_extents(self.shape)
        data = _bytes(self._data)
        if len(data) != prod(self.shape) * element_bytes(self.dtype):
            raise MalformedError("a NumPy array whose bytes do not fit its sizes", where=f"{len(data)} bytes")
        if isinstance(self._data, LazyBytes):
            self._data.source.keep(prod(self.shape))
        return widen(np.ndarray(self.shape, code, data, order=self._order), self.dtype)


def numpy_tensor(value: Call) -> TensorRef | None:
    """The array or scalar that a call stands for, None when it stands for something else."""
    callee = value.callee
    if not isinstance(callee, Global) or callee.module not in _MODULES:
        return None
    if callee.name == "_reconstruct":
        return _array(value)
    if callee.name == "scalar" and value.args:
        return _tensor(value.args[0], (), value.args[1] if len(value.args) > 1 else b"", False, value)
    if callee.name == "_frombuffer" and len(value.args) == 4:
        data, dtype, shape, order = value.args
        return _tensor(dtype, shape, data, order == "F", value)
    return None


def _array(value: Call) -> TensorRef:
    """BUILD's state is (version, shape, dtype, is Fortran, data); before NumPy 1.0 without the version."""
    state = value.state
    if not isinstance(state, tuple) or len(state) not in (4, 5):
        return UnreadableTensor(MalformedError("a NumPy array without a state"))
    shape, dtype, fortran, data = state[-4:]
    return _tensor(dtype, shape, data, fortran is True or fortran == 1, value)


def _tensor(dtype: object, shape: object, data: object, fortran: bool, identity: Call) -> TensorRef:
    if not isinstance(shape, tuple) or len(shape) > MOST_AXES:
        return UnreadableTensor(MalformedError("a NumPy array without sizes"))
    sizes = tuple(size for size in shape if is_extent(size) and size >= 0)
    if len(sizes) != len(shape):
        return UnreadableTensor(MalformedError("a NumPy array with impossible sizes"))
    name, big_endian = _dtype(dtype)
    if name is None:
        why = UnreadableError("a NumPy array of objects or records is not read", remedy="save it as numbers")
        return UnreadableTensor(why, shape=sizes)
    return ArrayTensor(name, sizes, data, big_endian=big_endian, fortran=fortran, identity=identity)


def _dtype(value: object) -> tuple[str | None, bool]:
    """The name of a pickled dtype and whether it is big-endian.

    `numpy.dtype('f4', False, True)` with the state (version, byte order, …); ml_dtypes' types are given as classes.
    """
    if not isinstance(value, Call) or value.callee_name != "numpy.dtype" or not value.args:
        return None, False
    code, state = value.args[0], value.state
    name = _DTYPES.get(code.lstrip("<>=|")) if isinstance(code, str) else None
    if isinstance(code, Global) and code.module.startswith("ml_dtypes") and code.name in _ML_DTYPES:
        name = code.name
    order = state[1] if isinstance(state, tuple) and len(state) > 1 else code[:1] if isinstance(code, str) else ""
    return name, order in (">", b">")


def _bytes(data: object) -> bytes:
    """The bytes of an array: bytes, or Latin-1 text from Python 2 and from protocols before 3."""
    try:
        if isinstance(data, LazyBytes):
            raw = data.read()
            return raw.decode("utf-8", "surrogatepass").encode("latin-1") if data.text else raw
        if isinstance(data, str):
            return data.encode("latin-1")
    except UnicodeError:
        raise MalformedError("a NumPy array whose text is not Latin-1") from None
    if isinstance(data, bytes):
        return data
    raise UnreadableError("a NumPy array without bytes is not read", remedy="save it as numbers")
