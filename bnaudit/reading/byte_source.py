"""Positioned reads from a file or a part of one, exact and counted."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError


class _Meter:
    __slots__ = ("bytes_read", "tensor_bytes")

    def __init__(self) -> None:
        self.bytes_read = 0
        self.tensor_bytes = 0


class ByteSource:
    """`size` bytes starting at `start` of an open file; slices share the file, the counter and the caps.

    Every reader takes a ByteSource and never a path, because archives stand inside files.
    """

    __slots__ = ("_fd", "_meter", "caps", "name", "path", "size", "start")

    def __init__(self, fd: int, path: Path, name: str, start: int, size: int, caps: Caps, meter: _Meter) -> None:
        self._fd = fd
        self._meter = meter
        self.path = path
        self.name = name
        self.start = start
        self.size = size
        self.caps = caps

    @classmethod
    def open(cls, path: Path, caps: Caps | None = None) -> OpenByteSource:
        """Open a regular file for reading.

        Raises UnreadableError when it does not exist, is not a regular file, or may not be read.
        """
        try:
            if not path.is_file():
                what = "is not a regular file" if path.exists() else "does not exist"
                raise UnreadableError(f"{path} {what}", remedy="check the path")
            fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise UnreadableError(
                f"{path} cannot be opened",
                where=error.strerror or type(error).__name__,
                remedy="check its permissions",
            ) from error
        return OpenByteSource(fd, path, path.name, 0, os.fstat(fd).st_size, caps or Caps(), _Meter())

    @property
    def bytes_read(self) -> int:
        """Bytes read so far from the whole file, by this source and all its slices."""
        return self._meter.bytes_read

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes at `offset`.

        Raises MalformedError when the range leaves the source, CapExceededError above `caps.header_bytes`.
        """
        self._check(offset, length)
        if length > self.caps.header_bytes:
            raise CapExceededError(f"{length} bytes in one piece", where=self.name, cap="header_bytes")
        data = self._fetch(offset, length)
        if len(data) != length:
            raise MalformedError(f"{self.name} ends early", where=f"{len(data)} of {length} bytes at {offset}")
        return data

    def read_tensor(self, offset: int, length: int) -> bytes:
        """The bytes of a tensor: `read`, held to `caps.value_bytes` each and `caps.tensor_bytes` in all."""
        if length > self.caps.value_bytes:
            raise CapExceededError(f"a norm tensor of {length} bytes", where=self.name, cap="value_bytes")
        self._charge(length)
        return self.read(offset, length)

    def keep(self, values: int) -> None:
        """Account for so many values that are about to be kept, in 8 bytes each, against `caps.tensor_bytes`.

        A few bytes in the file can stand for very many values: strides of 0, narrow types, one tensor under many names.
        """
        self._charge(8 * values)

    def _charge(self, length: int) -> None:
        together = self._meter.tensor_bytes + max(length, 0)
        if together > self.caps.tensor_bytes:
            raise CapExceededError("the norm tensors together", where=self.name, cap="tensor_bytes")
        self._meter.tensor_bytes = together  # what was refused does not count: smaller tensors may still fit

    def head(self, length: int = 4096) -> bytes:
        """The first bytes, at most `length`."""
        return self.read(0, min(length, self.size))

    def tail(self, length: int) -> bytes:
        """The last bytes, at most `length`."""
        length = min(length, self.size)
        return self.read(self.size - length, length)

    def slice(self, offset: int, length: int, name: str | None = None) -> ByteSource:
        """A part of this source. Raises MalformedError when the range leaves it."""
        self._check(offset, length)
        return ByteSource(self._fd, self.path, name or self.name, self.start + offset, length, self.caps, self._meter)

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError(
                f"{self.name} is truncated or corrupt",
                where=f"{length} bytes wanted at {offset}, {self.size} there",
            )

    def _fetch(self, offset: int, length: int) -> bytes:
        data = _pread(self._fd, length, self.start + offset)
        self._meter.bytes_read += len(data)
        return data


class OpenByteSource(ByteSource):
    """The source of a whole file, closed on leaving the context."""

    __slots__ = ()

    def __enter__(self) -> OpenByteSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


def _pread(fd: int, length: int, offset: int) -> bytes:
    pieces = []
    while length > 0:
        if hasattr(os, "pread"):
            piece = os.pread(fd, length, offset)
        else:  # Windows
            os.lseek(fd, offset, os.SEEK_SET)
            piece = os.read(fd, length)
        if not piece:
            break
        pieces.append(piece)
        length -= len(piece)
        offset += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class MemorySource(ByteSource):
    """Bytes already in memory (a decompressed member), read like a file and not counted again."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes, name: str, parent: ByteSource) -> None:
        super().__init__(parent._fd, parent.path, name, 0, len(data), parent.caps, parent._meter)
        self._data = data

    def _fetch(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def slice(self, offset: int, length: int, name: str | None = None) -> ByteSource:
        """A part of this source. Raises MalformedError when the range leaves it."""
        self._check(offset, length)
        return MemorySource(self._data[offset : offset + length], name or self.name, self)
