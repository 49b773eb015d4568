"""TensorProto and SparseTensorProto as references: the header is read, the values only when they are asked for."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.onnx.dtypes import decode, dtype_name, from_words, is_floating, stored_bytes
from bnaudit.reading.onnx.external import External, ExternalFiles
from bnaudit.reading.onnx.protobuf_wire import WireReader, signed
from bnaudit.reading.tensors.tensor_refs import MOST_AXES, TensorRef, check_extents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKED = {0x22: "<f4", 0x2A: "", 0x3A: "", 0x52: "<f8", 0x5A: ""}
"""Runs of numbers: float_data, int32_data, int64_data, double_data, uint64_data; an empty type means varints."""
_SINGLE = {0x25: "<f4", 0x28: "", 0x38: "", 0x51: "<f8", 0x58: ""}
"""The same fields as some writers store them, one number each."""


_WORD = 0xFFFF_FFFF_FFFF_FFFF


class OnnxTensor(TensorRef):
    """One TensorProto: `name`, `dtype`, `shape`, and where its values are."""

    __slots__ = ("_files", "_span", "_wire", "external", "name", "raw")

    def __init__(
        self,
        wire: WireReader,
        files: ExternalFiles,
        span: tuple[int, int],
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        raw: tuple[int, int] | None,
        external: External | None,
    ) -> None:
        super().__init__(dtype, shape, identity=span)
        self._wire = wire
        self._files = files
        self._span = span
        self.name = name
        self.raw = raw
        self.external = external

    @property
    def count(self) -> int:
        """Number of elements. Raises MalformedError for a negative size, CapExceededError for an absurd one."""
        return element_count(self.shape, self.name, self._wire.source.caps.value_bytes)

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values in `shape`, widened; see TensorRef."""
        return widened(self.native(), self.dtype)

    def native(self) -> NDArray[Any]:
        """The values in `shape`, in their own type; bfloat16 comes as float32."""
        count = self.count
        if self.external is not None:
            data = self._files.read(self.external, stored_bytes(self.dtype, count))
            return decode(data, self.dtype, count).reshape(self.shape)
        if self.raw is not None:
            start, stop = self.raw
            if stop - start != stored_bytes(self.dtype, count):
                raise MalformedError(f"{stop - start} bytes for {count} values of type {self.dtype}", where=self.name)
            return decode(self._wire.source.read_tensor(start, stop - start), self.dtype, count).reshape(self.shape)
        return self._typed(count).reshape(self.shape)

    def _typed(self, count: int) -> NDArray[Any]:
        """Values that stand in float_data, int32_data, int64_data, double_data or uint64_data."""
        import numpy as np

        packed = stored_bytes(self.dtype, count)
        pieces = [self._numbers(*field) for field in self._wire.fields(*self._span)]
        numbers = np.concatenate([np.empty(0, np.int64), *(piece for piece in pieces if piece.size)])
        narrow = self.dtype in ("int4", "uint4", "int2", "uint2")
        if numbers.size != (packed if narrow else count):
            raise MalformedError(f"{numbers.size} of {count} values", where=self.name)
        if narrow:
            return decode(numbers.astype(np.uint8).tobytes(), self.dtype, count)
        return from_words(numbers, self.dtype)

    def _numbers(self, key: int, start: int, stop: int) -> NDArray[Any]:
        """The numbers of one field; empty for a field that holds none. Varints come as int64, bits kept."""
        import numpy as np

        element = _SINGLE[key] if key in _SINGLE else _PACKED.get(key)
        if element is None:
            return np.empty(0, np.int64)
        if not element:
            varints = [start] if key in _SINGLE else self._wire.varints(start, stop)
            return np.array([value & _WORD for value in varints], np.uint64).view(np.int64)
        data = self._wire.data(start, stop) if key in _SINGLE else self._wire.source.read_tensor(start, stop - start)
        if len(data) % np.dtype(element).itemsize:
            raise MalformedError("a run of numbers that is cut", where=self.name)
        return np.frombuffer(data, element)


def element_count(shape: tuple[int, ...], name: str, most: int) -> int:
    """The product of the sizes. Raises MalformedError when one is negative, CapExceededError above `most`."""
    if min(shape, default=0) < 0:
        raise MalformedError(f"a tensor with the size {min(shape)}", where=name)
    count = prod(shape[:MOST_AXES])
    if count > most:
        raise CapExceededError(f"a tensor of shape {shape[:MOST_AXES]}", where=name, cap="value_bytes")
    check_extents(shape)
    return count


def widened(values: NDArray[Any], dtype: str) -> NDArray[np.float64] | NDArray[np.int64]:
    """float64 for floating dtypes, int64 for the rest. Raises UnreadableError when a value does not fit."""
    import numpy as np

    if is_floating(dtype):
        if not np.isnan(values).any():
            return values.astype(np.float64)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return values.astype(np.float64)
    if values.dtype == np.uint64 and values.size and int(values.max()) >> 63:
        raise UnreadableError("integers above 2^63", remedy="store norm tensors in a plain dtype")
    return values.astype(np.int64)


def read_tensor(wire: WireReader, files: ExternalFiles, start: int, stop: int) -> OnnxTensor:
    """The header of one TensorProto."""
    name, code, raw, is_external = "", 0, None, False
    sizes: list[int] = []
    entries: list[tuple[int, int]] = []
    for key, begin, end in wire.fields(start, stop):
        if key == 0x08:
            sizes.append(signed(begin))
        elif key == 0x0A:
            sizes += [signed(size) for size in wire.varints(begin, end)]
        elif key == 0x10:
            code = begin
        elif key == 0x42:
            name = wire.text(begin, end)
        elif key == 0x4A:
            raw = (begin, end)
        elif key == 0x6A:
            entries.append((begin, end))
        elif key == 0x70:
            is_external = begin == 1
    external = External.parse(wire, entries) if is_external else None
    return OnnxTensor(wire, files, (start, stop), name, dtype_name(code), tuple(sizes), raw, external)


class SparseTensor(TensorRef):
    """One SparseTensorProto, dense when it is loaded; `name` is the one of its values."""

    __slots__ = ("indices", "name", "values")

    def __init__(self, values: OnnxTensor, indices: OnnxTensor | None, shape: tuple[int, ...]) -> None:
        super().__init__(values.dtype, shape, identity=values.identity)
        self.values = values
        self.indices = indices
        self.name = values.name

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The dense values in `shape`; see TensorRef."""
        return widened(self.native(), self.dtype)

    def native(self) -> NDArray[Any]:
        """The dense values in `shape`, in their own type."""
        import numpy as np

        count = element_count(self.shape, self.name, 1 << 24)
        values = self.values.native().reshape(-1)
        dense = np.zeros(count, values.dtype)
        indices = self.indices.native() if self.indices is not None else np.empty(0, np.int64)
        try:
            if indices.ndim == 2:
                indices = np.ravel_multi_index(tuple(indices.T), self.shape)
            dense[indices] = values
        except (ValueError, IndexError) as error:
            raise MalformedError("a sparse tensor whose indices do not fit", where=self.name) from error
        return dense.reshape(self.shape)


def read_sparse_tensor(wire: WireReader, files: ExternalFiles, start: int, stop: int) -> SparseTensor:
    """One SparseTensorProto. Raises MalformedError when it has no values."""
    values, indices = None, None
    sizes: list[int] = []
    for key, begin, end in wire.fields(start, stop):
        if key == 0x0A:
            values = read_tensor(wire, files, begin, end)
        elif key == 0x12:
            indices = read_tensor(wire, files, begin, end)
        elif key == 0x18:
            sizes.append(signed(begin))
        elif key == 0x1A:
            sizes += [signed(size) for size in wire.varints(begin, end)]
    if values is None:
        raise MalformedError("a sparse tensor without values", where=wire.source.name)
    return SparseTensor(values, indices, tuple(sizes))
