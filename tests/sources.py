"""Byte sources over bytes in memory, for tests of readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bnaudit.caps import Caps
from bnaudit.reading.byte_source import ByteSource, MemorySource, OpenByteSource


@contextmanager
def source_of(data: bytes, folder: Path, caps: Caps | None = None) -> Iterator[OpenByteSource]:
    """A source over a real file that holds `data`."""
    path = folder / "file.bin"
    path.write_bytes(data)
    with ByteSource.open(path, caps) as source:
        yield source


class MemoryFiles:
    """Makes sources in memory without a file for each: for thousands of small inputs."""

    def __init__(self, caps: Caps | None = None) -> None:
        self._parent = ByteSource.open(Path(__file__), caps)

    def source(self, data: bytes) -> MemorySource:
        """A source of these bytes."""
        return MemorySource(data, "bytes", self._parent)

    def close(self) -> None:
        """Close the file behind the sources."""
        self._parent.__exit__(None, None, None)
