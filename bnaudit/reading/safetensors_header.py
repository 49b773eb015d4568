"""The safetensors format: an 8-byte length, a JSON header, the bytes of all tensors without holes.

Specification: github.com/huggingface/safetensors, README and safetensors/src/tensor.rs (0.4 to 0.8). Every rule that
keeps two readers from seeing two different models is enforced: no duplicate names, no overlaps, no holes, sizes that
follow from dtype and shape.
"""

from __future__ import annotations

from bisect import bisect_right
from math import prod
from typing import TYPE_CHECKING

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.json_text import parse_json
from bnaudit.reading.tensors.element_types import raw_type, widen
from bnaudit.reading.tensors.tensor_refs import MOST_AXES, TensorRef, check_extents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LENGTH_BYTES = 8
_READ_TOGETHER = 64 << 10
"""Neighbouring vectors are read in one piece up to this many bytes: norm tensors stand side by side."""

_DTYPES = {
    "BOOL": ("bool", 8),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F4": ("float4_e2m1fn_x2", 4),
    "F6_E2M3": ("float6_e2m3fn", 6),
    "F6_E3M2": ("float6_e3m2fn", 6),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F32": ("float32", 32),
    "C64": ("complex64", 64),
    "F64": ("float64", 64),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
}
"""The format's name -> PyTorch's and bits per element."""


_FRAMEWORKS = {
    "pt": "PyTorch",
    "tf": "TensorFlow",
    "flax": "Flax",
    "np": "NumPy",
    "mlx": "MLX",
    "paddle": "PaddlePaddle",
}


class SafetensorsFile:
    """The tensors of one file in the order of their bytes, and the header's own metadata.

    Raises MalformedError when the file is truncated or breaks the format, CapExceededError for a header above
    `caps.header_bytes`.
    """

    __slots__ = ("_blocks", "_data", "_read", "metadata", "tensors")

    def __init__(self, source: ByteSource) -> None:
        length = int.from_bytes(source.read(0, _LENGTH_BYTES), "little")
        if length > source.caps.header_bytes:
            raise CapExceededError(f"a header of {length} bytes", where=source.name, cap="header_bytes")
        header = _parse(source.slice(_LENGTH_BYTES, length))
        self._data = source.slice(_LENGTH_BYTES + length, source.size - _LENGTH_BYTES - length)
        self._read: dict[int, bytes] = {}
        self.metadata = _metadata(header.pop("__metadata__", None), source.name)
        self.tensors: dict[str, TensorRef] = {}
        self._blocks: list[int] = []
        self._place(header, source.name)

    @property
    def producer(self) -> str | None:
        """The framework that the file says it was written from."""
        return _FRAMEWORKS.get(self.metadata.get("format", ""))

    def read(self, start: int, end: int, values: int) -> bytes:
        """Bytes `start` to `end` of the data, which stand for so many values; the block around them is read once."""
        if start == end:
            return b""
        number = bisect_right(self._blocks, start) - 1
        first = self._blocks[number]
        block = self._read.get(number)
        if block is None:
            limit = self._blocks[number + 1] if number + 1 < len(self._blocks) else self._data.size
            block = self._read[number] = self._data.read_tensor(first, limit - first)
        self._data.keep(values)
        return block[start - first : end - first]

    def _place(self, header: dict[str, object], name: str) -> None:
        """Lay the tensors out by offset; each begins where the one before ends."""
        entries = sorted((_Entry(key, value, name) for key, value in header.items()), key=lambda e: (e.start, e.end))
        position = 0
        for entry in entries:
            if entry.start != position:
                what = "overlap" if entry.start < position else "leave a hole"
                raise MalformedError(f"the tensors {what}", where=f"{name}, {entry.name[:80]} at {entry.start}")
            position = entry.end
            self.tensors[entry.name] = SafetensorsTensor(self, entry)
        if position != self._data.size:
            what = "is truncated" if position > self._data.size else "has bytes that no tensor owns"
            raise MalformedError(
                f"{name} {what}", where=f"{position} bytes of tensors declared, {self._data.size} there"
            )
        self._blocks = _blocks(entries)


class SafetensorsTensor(TensorRef):
    """A tensor of a safetensors file: little-endian, row-major, its own bytes."""

    __slots__ = ("_end", "_file", "_start")

    def __init__(self, file: SafetensorsFile, entry: _Entry) -> None:
        super().__init__(entry.dtype, entry.shape, identity=(id(file), entry.start, entry.end))
        self._file = file
        self._start = entry.start
        self._end = entry.end

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values; see TensorRef."""
        import numpy as np

        check_extents(self.shape)
        code = raw_type(self.dtype)
        data = self._file.read(self._start, self._end, prod(self.shape))
        return widen(np.ndarray(self.shape, code, data), self.dtype)


class _Entry:
    """One checked line of the header."""

    __slots__ = ("dtype", "end", "name", "shape", "start")

    def __init__(self, name: str, value: object, file: str) -> None:
        where = f"{file}, {name[:80]}"
        fields = value if isinstance(value, dict) else {}
        dtype, shape, offsets = fields.get("dtype"), _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
        if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
            raise MalformedError("a tensor without dtype, shape and data_offsets", where=where)
        if dtype not in _DTYPES:
            raise MalformedError(
                f"an unknown dtype {dtype[:20]}", where=where, remedy="update bnaudit or cast the tensor"
            )
        self.name = name
        self.dtype, bits = _DTYPES[dtype]
        self.shape = shape
        self.start, self.end = offsets
        if len(self.shape) > MOST_AXES or (self.end - self.start) * 8 != prod(self.shape) * bits:
            raise MalformedError(
                f"{dtype} of shape {list(self.shape[:8])} in {self.end - self.start} bytes", where=where
            )


def _blocks(entries: list[_Entry]) -> list[int]:
    """Where the blocks that are read in one piece begin: a tensor each, or neighbouring vectors together."""
    starts = []
    block_end = -1
    vectors = False
    for entry in entries:
        is_vector = len(entry.shape) <= 1
        if not (vectors and is_vector and entry.end <= block_end) and entry.end > entry.start:
            starts.append(entry.start)
            block_end = entry.start + _READ_TOGETHER
            vectors = is_vector
    return starts


def _sizes(value: object) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in value):
        return tuple(value)
    return None


def _parse(source: ByteSource) -> dict[str, object]:
    header = parse_json(source, _without_duplicates)
    if not isinstance(header, dict):
        raise MalformedError("the header is not a JSON object", where=source.name)
    return header


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands in it twice")
    return made


def _metadata(value: object, name: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise MalformedError("__metadata__ is not a map of text to text", where=name)
    return value
