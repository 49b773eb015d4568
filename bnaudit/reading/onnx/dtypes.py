"""ONNX element types: their names in this project and their bytes as NumPy arrays (`TensorProto.DataType`)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bnaudit.errors import MalformedError, UnreadableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}

_WIDTH = {"bool": 8, "uint4": 4, "int4": 4, "uint2": 2, "int2": 2, "bfloat16": 16}
_PLAIN = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def dtype_name(code: int) -> str:
    """The name of a `TensorProto.DataType`; `undefined` for 0 and `unknown (n)` for one that is not known."""
    return DTYPES.get(code) or ("undefined" if code == 0 else f"unknown ({code})")


def is_floating(dtype: str) -> bool:
    """Whether a dtype holds real numbers with a fraction."""
    return "float" in dtype


@cache
def width(dtype: str) -> int:
    """Bits of one element. Raises UnreadableError for dtypes that norm tensors do not have."""
    if dtype in _PLAIN:
        return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))
    if dtype not in _WIDTH:
        raise UnreadableError(f"values of type {dtype} are not read", remedy="store norm tensors in a plain dtype")
    return _WIDTH[dtype]


def stored_bytes(dtype: str, count: int) -> int:
    """Bytes of `count` elements in raw_data or in an external file; narrow ones are packed."""
    return (count * width(dtype) + 7) // 8


def decode(data: bytes, dtype: str, count: int) -> NDArray[Any]:
    """`count` elements of little-endian raw data, one axis; bfloat16 comes as the float32 of the same value.

    Raises MalformedError when the length does not fit, UnreadableError for dtypes that are not read.
    """
    import numpy as np

    if len(data) != stored_bytes(dtype, count):
        raise MalformedError(f"{len(data)} bytes for {count} values of type {dtype}")
    if dtype == "bool":
        return np.frombuffer(data, np.uint8).astype(np.bool_)
    if dtype == "bfloat16":
        return widen_bfloat16(np.frombuffer(data, "<u2"))
    bits = width(dtype)
    if bits < 8:
        return _unpack(np.frombuffer(data, np.uint8), bits, count, dtype.startswith("int"))
    native, little_endian = _numpy_types(dtype)
    return np.frombuffer(data, little_endian).astype(native, copy=False)


@cache
def _numpy_types(dtype: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The type in the machine's byte order, and as files have it."""
    import numpy as np

    native = np.dtype(dtype)
    return native, native.newbyteorder("<")


def from_words(words: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Elements that stand in `int32_data` or `uint64_data`, one per word, as their own type."""
    import numpy as np

    if dtype == "float16":
        return words.astype(np.uint16).view(np.float16)
    if dtype == "bfloat16":
        return widen_bfloat16(words.astype(np.uint16))
    if dtype == "bool":
        return words.astype(np.bool_)
    return words.astype(np.dtype(dtype))


def widen_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The float32 values of bfloat16 bit patterns: the same upper half, zeros below."""
    import numpy as np

    return (bits.astype(np.uint32) << 16).view(np.float32)


def round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 values rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    import numpy as np

    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF_0000).astype(np.uint32)
    return np.where(np.isnan(values), values, rounded.view(np.float32)).astype(np.float32)


def _unpack(data: NDArray[np.uint8], bits: int, count: int, is_signed: bool) -> NDArray[Any]:
    """Elements of 2 or 4 bits, the lowest bits first."""
    import numpy as np

    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if not is_signed:
        return values
    sign = 1 << (bits - 1)
    extended: NDArray[Any] = (values.astype(np.int16) ^ sign) - sign
    return extended.astype(np.int8)
