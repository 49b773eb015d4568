"""The storages of a torch zip archive: one member each, named by its key."""

from __future__ import annotations

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.zip_directory import ZipDirectory


class ZipStorages:
    """`find("0")` is the member `<folder>0`; the folder is the archive's `data/` unless another is given.

    The last storage stays open, so that tensors that share a deflated one inflate it once.
    """

    __slots__ = ("_archive", "_folder", "_last")

    def __init__(self, archive: ZipDirectory, folder: str | None = None) -> None:
        self._archive = archive
        self._folder = archive.record_prefix() + "data/" if folder is None else folder
        self._last: tuple[str, ByteSource] | None = None

    def find(self, key: str) -> ByteSource:
        """The bytes of one storage. Raises MalformedError when the archive has no such member."""
        if self._last is None or self._last[0] != key:
            self._last = key, self._archive.open(self._folder + key)
        return self._last[1]


def is_big_endian(archive: ZipDirectory) -> bool:
    """Whether the archive was written on a big-endian machine: its `byteorder` member says `big`."""
    name = archive.record_prefix() + "byteorder"
    return name in archive and archive.open(name).head(8) == b"big"
