"""PyTorch's element types: how many bytes they take and how they widen, exactly, to float64 or int64."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bnaudit.errors import UnreadableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RAW = {
    "float64": "f8",
    "float32": "f4",
    "float16": "f2",
    "bfloat16": "u2",
    "int64": "i8",
    "int32": "i4",
    "int16": "i2",
    "int8": "i1",
    "uint64": "u8",
    "uint32": "u4",
    "uint16": "u2",
    "uint8": "u1",
    "bool": "u1",
    "float8_e4m3fn": "u1",
    "float8_e5m2": "u1",
    "float8_e4m3fnuz": "u1",
    "float8_e5m2fnuz": "u1",
    "float8_e8m0fnu": "u1",
}

STORAGE_TYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
    "UntypedStorage": "uint8",
    "_UntypedStorage": "uint8",
}
"""The element type of each storage class; an untyped one counts bytes."""

_BYTES = {dtype: int(raw[1]) for dtype, raw in _RAW.items()}
_BYTES |= {"complex64": 8, "complex128": 16, "complex32": 4, "qint32": 4}


def element_bytes(dtype: str) -> int:
    """Bytes of one element; 1 for the types that are packed or not known."""
    return _BYTES.get(dtype, 1)


def raw_type(dtype: str, big_endian: bool = False) -> str:
    """The NumPy type string that holds the stored bits. Raises UnreadableError for types that norms do not have."""
    if dtype not in _RAW:
        raise UnreadableError(
            f"values of type {dtype or 'unknown'} are not read", remedy="store norms in a plain dtype"
        )
    return (">" if big_endian else "<") + _RAW[dtype]


def widen(raw: NDArray[Any], dtype: str) -> NDArray[np.float64] | NDArray[np.int64]:
    """Stored bits (an array of `raw_type(dtype)`, any shape) as float64 or int64 of the same values.

    Raises UnreadableError for an unsigned integer above 2**63 - 1.
    """
    import numpy as np

    if dtype == "bfloat16":
        raw = (raw.astype(np.uint32) << 16).view(np.float32)
    elif dtype.startswith("float8"):
        values: NDArray[np.float64] = np.array(_float8_values(dtype))[raw]
        return values
    elif dtype == "bool":
        raw = raw != 0
    elif dtype == "uint64" and raw.size and int(raw.max()) > np.iinfo(np.int64).max:
        raise UnreadableError("an integer above 2**63 - 1", remedy="store counters as int64")
    with np.errstate(all="ignore"):  # a signalling NaN is a NaN
        return raw.astype(np.float64) if raw.dtype.kind == "f" else raw.astype(np.int64)


@cache
def _float8_values(dtype: str) -> tuple[float, ...]:
    """The 256 values of an 8-bit float (OCP FP8 and MX specifications; FNUZ: arXiv 2206.02915)."""
    if dtype == "float8_e8m0fnu":
        return (*(2.0 ** (code - 127) for code in range(255)), float("nan"))
    exponent_bits, unsigned_zero = int(dtype[8]), dtype.endswith("fnuz")
    bias = 2 ** (exponent_bits - 1) - (0 if unsigned_zero else 1)
    return tuple(_float8(code, exponent_bits, bias, dtype) for code in range(256))


def _float8(code: int, exponent_bits: int, bias: int, dtype: str) -> float:
    mantissa_bits = 7 - exponent_bits
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if dtype.endswith("fnuz") and code == 0x80:
        return float("nan")
    if dtype == "float8_e4m3fn" and code & 0x7F == 0x7F:
        return float("nan")
    if dtype == "float8_e5m2" and exponent == 31:
        return float("nan") if mantissa else sign * float("inf")
    fraction = mantissa / 2**mantissa_bits
    size: float = 2.0 ** (exponent - bias) * (1 + fraction) if exponent else 2.0 ** (1 - bias) * fraction
    return sign * size
