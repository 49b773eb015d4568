"""One array as numpy.save writes it: magic string, version, a header that is a Python dict literal, the values.

Specification: numpy/lib/format.py, versions 1.0 to 3.0. The three fields are found by patterns: nothing is evaluated.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Literal

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.tensors.element_types import element_bytes, raw_type, widen
from bnaudit.reading.tensors.tensor_refs import MOST_AXES, TensorRef, check_extents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY"
_FIRST_READ = 192
"""numpy pads the header of an ordinary array to 128 bytes."""
_LONGEST_HEADER = 10_000
_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([<>=|]?)(\w+)['"]""")
_FORTRAN = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([\d\sL,]*)\)""")
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


class NpyTensor(TensorRef):
    """The array in `source`, which is one .npy file. Reads its header, and the values on `load`.

    Raises MalformedError when the header is not numpy's or the values are not all there.
    """

    __slots__ = ("_big_endian", "_order", "_source", "_start", "is_object")

    def __init__(self, source: ByteSource) -> None:
        header, self._start = _header(source)
        descr, fortran, shape = _DESCR.search(header), _FORTRAN.search(header), _SHAPE.search(header)
        if fortran is None or shape is None:
            raise MalformedError("the array's header is not numpy's", where=source.name)
        sizes = _sizes(shape.group(1), source)
        super().__init__(_dtype(descr.group(2)) if descr else "unknown", sizes, identity=(source.name, source.start))
        self._source = source
        self.is_object = descr is not None and descr.group(2) == "O"
        self._big_endian = descr is not None and descr.group(1) == ">"
        self._order: Literal["C", "F"] = "F" if fortran.group(1) == "True" else "C"
        if len(sizes) > MOST_AXES or (self.dtype != "unknown" and self._start + self._size > source.size):
            raise MalformedError("the array ends early", where=f"{source.name}, shape {list(sizes[:8])}")

    @property
    def _size(self) -> int:
        return prod(self.shape) * element_bytes(self.dtype)

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values; see TensorRef."""
        import numpy as np

        if self.dtype == "unknown":
            raise UnreadableError("an array of objects or records", where=self._source.name, remedy="save numbers")
        check_extents(self.shape)
        data = self._source.read_tensor(self._start, self._size)
        self._source.keep(prod(self.shape))
        return widen(
            np.ndarray(self.shape, raw_type(self.dtype, self._big_endian), data, order=self._order), self.dtype
        )


class UnopenedTensor(TensorRef):
    """An array that is too long for a norm layer and was not unpacked to see what it is."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("unknown", ())

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """Raises CapExceededError: it was not unpacked."""
        raise CapExceededError("a compressed array too long for a norm layer", cap="value_bytes")


def _header(source: ByteSource) -> tuple[str, int]:
    """The header's text and where the values start."""
    first = source.head(_FIRST_READ)
    if not first.startswith(_MAGIC) or len(first) < 12:
        raise MalformedError("a member that is no numpy array", where=source.name)
    start = 10 if first[6] == 1 else 12
    length = int.from_bytes(first[8:start], "little")
    if length > _LONGEST_HEADER:
        raise MalformedError(f"an array header of {length} bytes", where=source.name)
    raw = first[start : start + length] if start + length <= len(first) else source.read(start, length)
    return raw.decode("latin-1"), start + length


def _sizes(text: str, source: ByteSource) -> tuple[int, ...]:
    """`3, 4` or `3L,` (Python 2) -> the numbers."""
    sizes = [size.strip().removesuffix("L") for size in text.split(",") if size.strip()]
    if not all(size.isdecimal() and len(size) < 19 for size in sizes):
        raise MalformedError("the array's shape is not numpy's", where=source.name)
    return tuple(map(int, sizes))


def _dtype(code: str) -> str:
    """`f4` -> `float32`."""
    if code == "b1":
        return "bool"
    kind, size = _KINDS.get(code[0]), code[1:]
    return f"{kind}{int(size) * 8}" if kind and size in ("1", "2", "4", "8", "16") else "unknown"
