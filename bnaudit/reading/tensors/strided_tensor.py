"""A tensor as torch stores it: sizes and strides over a storage that many tensors may share."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Protocol, TypeGuard

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles.stand_ins import Global, PersistentId
from bnaudit.reading.tensors.element_types import STORAGE_TYPES, element_bytes, raw_type, widen
from bnaudit.reading.tensors.tensor_refs import LARGEST, TensorRef, check_extents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_extent(value: object) -> TypeGuard[int]:
    """Whether a value of a pickle is a size, stride or offset that can be computed with: no bool, nothing absurd."""
    return type(value) is int and -LARGEST < value < LARGEST


class Storages(Protocol):
    """The raw bytes of a file's storages by key."""

    def find(self, key: str) -> ByteSource:
        """The bytes of one storage. Raises UnreadableError when they are not there."""


class StoragePart:
    """Elements `first` to `first + length` of the storage `key` (all of them, or a legacy view)."""

    __slots__ = ("dtype", "first", "key", "length")

    def __init__(self, key: str, dtype: str, first: int, length: int) -> None:
        self.key = key
        self.dtype = dtype
        self.first = first
        self.length = length


def storage_part(value: object) -> StoragePart | None:
    """('storage', class, key, location, elements[, (view key, first, elements)]): the last only in legacy files.

    The storage that a persistent id stands for; None when it stands for something else.
    """
    pid = value.pid if isinstance(value, PersistentId) else None
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        return None
    _, cls, key, _, length = pid[:5]
    dtype = STORAGE_TYPES.get(cls.name) if isinstance(cls, Global) else None
    if dtype is None or not isinstance(key, str) or not is_extent(length):
        return None
    first = 0
    if len(pid) > 5 and isinstance(pid[5], tuple):
        view = pid[5]
        if len(view) != 3 or not is_extent(view[1]) or not is_extent(view[2]) or view[1] < 0:
            return None
        first, length = view[1], view[2]
    return StoragePart(key, dtype, first, length)


class Layout:
    """Where a tensor's elements are, in elements from the start of its storage."""

    __slots__ = ("offset", "shape", "strides")

    def __init__(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.offset = offset
        self.shape = shape
        self.strides = strides

    @property
    def span(self) -> int:
        """Elements from the first to the last one that is used; 0 for an empty tensor."""
        if 0 in self.shape:
            return 0
        return 1 + sum([(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)])

    def check(self) -> None:
        """Raise MalformedError for a layout that torch refuses."""
        if len(self.shape) != len(self.strides):
            raise MalformedError(f"a tensor with {len(self.shape)} sizes and {len(self.strides)} strides")
        if self.offset < 0 or min((*self.shape, *self.strides), default=0) < 0:
            raise MalformedError("a tensor with a negative offset, size or stride")
        check_extents(self.shape)


class StridedTensor(TensorRef):
    """A dense tensor over a storage; `load` reads the span between its first and its last element."""

    __slots__ = ("_big_endian", "_layout", "_negated", "_part", "_storages")

    def __init__(
        self,
        storages: Storages,
        part: StoragePart,
        dtype: str,
        layout: Layout,
        *,
        requires_grad: bool | None,
        big_endian: bool = False,
        negated: bool = False,
    ) -> None:
        first = part.first * element_bytes(part.dtype) + layout.offset * element_bytes(dtype)
        super().__init__(
            dtype,
            layout.shape,
            requires_grad=requires_grad,
            is_parameter=False,
            identity=("storage", part.key, first),
        )
        self._storages = storages
        self._part = part
        self._layout = layout
        self._big_endian = big_endian
        self._negated = negated

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values; see TensorRef. Bounds are checked before anything is read or allocated."""
        import numpy as np

        layout, width = self._layout, element_bytes(self.dtype)
        code = raw_type(self.dtype, self._big_endian)
        layout.check()
        source = self._storages.find(self._part.key)
        length = layout.span * width
        start = self._start(source, width, length)
        count = prod(self.shape)
        if count * width > source.caps.value_bytes:
            raise CapExceededError(f"a norm tensor of {count} elements", where=source.name, cap="value_bytes")
        source.keep(count)
        data = source.read_tensor(start, length)
        if not count:
            return widen(np.empty(self.shape, code), self.dtype)
        strides = tuple([stride * width for stride in layout.strides])
        values = widen(np.ndarray(self.shape, code, data, strides=strides), self.dtype)
        return -values if self._negated else values

    def _start(self, source: ByteSource, width: int, length: int) -> int:
        """The offset of the first element in the storage. Raises MalformedError when the last one is outside."""
        part, layout = self._part, self._layout
        unit = element_bytes(part.dtype)
        start = layout.offset * width
        end = start + length
        if end > part.length * unit or part.first * unit + end > source.size:
            raise MalformedError(
                f"a tensor reaches behind its storage {self._part.key[:80]}",
                where=f"{end} bytes wanted, {min(part.length * unit, source.size)} there",
            )
        return part.first * unit + start


class UnreadableTensor(TensorRef):
    """A tensor whose values cannot be had from the file; `load` says why."""

    __slots__ = ("_why",)

    def __init__(
        self,
        why: UnreadableError,
        dtype: str = "unknown",
        shape: tuple[int, ...] = (),
        requires_grad: bool | None = None,
    ) -> None:
        super().__init__(dtype, shape, requires_grad=requires_grad)
        self._why = why

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """Raises UnreadableError."""
        raise self._why.with_traceback(None)


class AbsentTensor(TensorRef):
    """A tensor that the file names without values; `absence` says why there are none."""

    __slots__ = ()

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """Raises UnreadableError: there are no values."""
        raise UnreadableError(f"there are no values: {self.absence}")
