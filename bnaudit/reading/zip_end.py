"""Finds the central directory of a zip archive from the record at its end (APPNOTE 4.3.14 to 4.3.16)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource

_END = Struct("<4s4H2IH")
_LOCATOR = Struct("<4sIQI")
_END64 = Struct("<4sQ2H2I4Q")
_END_SIGNATURE = b"PK\x05\x06"
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_END64_SIGNATURE = b"PK\x06\x06"
_ENTRY_SIGNATURE = b"PK\x01\x02"
_ENTRY_BYTES = 46
_FIRST_LOOK = 4096
_LONGEST_COMMENT = 0xFFFF


class CentralDirectory(NamedTuple):
    """Where the central directory of an archive is, in the source."""

    offset: int
    size: int
    entries: int
    base: int
    """What the archive's own offsets count from: 0, or the length of data put before the archive."""


def find_central_directory(source: ByteSource) -> CentralDirectory:
    """Locate the central directory, zip64 or not, behind a comment or up to 64 KiB of trailing bytes.

    Raises MalformedError when there is none, CapExceededError when it is larger than the caps.
    """
    position = _find_end(source)
    _, _, _, _, entries, size, offset, _ = _END.unpack(source.read(position, _END.size))
    end = position
    wide = _zip64_end(source, position)
    if wide is not None:
        end, entries, size, offset = wide
    _hold_to_caps(source, entries, size)
    base = _base(source, end, size, offset, entries)
    return CentralDirectory(base + offset, size, entries, base)


def _find_end(source: ByteSource) -> int:
    """The last end record: the file's tail is read in two looks, because a comment is rare."""
    for look in (_FIRST_LOOK, _END.size + _LONGEST_COMMENT):
        tail = source.tail(look)
        found = tail.rfind(_END_SIGNATURE, 0, max(len(tail) - _END.size + 4, 0))
        if found >= 0:
            return source.size - len(tail) + found
    raise MalformedError(f"{source.name} has no zip directory", where="the end of the file is missing")


def _zip64_end(source: ByteSource, position: int) -> tuple[int, int, int, int] | None:
    """Offset, entries, size and offset of the directory from the zip64 record; None when there is none."""
    place = position - _LOCATOR.size
    if place < _END64.size:
        return None
    signature, _, offset, _ = _LOCATOR.unpack(source.read(place, _LOCATOR.size))
    if signature != _LOCATOR_SIGNATURE:
        return None
    for candidate in (offset, place - _END64.size):
        if 0 <= candidate <= place - _END64.size:
            fields = _END64.unpack(source.read(candidate, _END64.size))
            if fields[0] == _END64_SIGNATURE:
                return candidate, fields[7], fields[8], fields[9]
    raise MalformedError(f"{source.name} has no zip64 directory", where=f"expected at {offset}")


def _hold_to_caps(source: ByteSource, entries: int, size: int) -> None:
    if entries > source.caps.archive_members:
        raise CapExceededError(f"{entries} archive members", where=source.name, cap="archive_members")
    if size > source.caps.header_bytes:
        raise CapExceededError(f"a zip directory of {size} bytes", where=source.name, cap="header_bytes")
    if entries * _ENTRY_BYTES > size:
        raise MalformedError(f"{source.name} is corrupt", where=f"{entries} archive members in {size} bytes")


def _base(source: ByteSource, end: int, size: int, offset: int, entries: int) -> int:
    """miniz believes the offset; when no entry stands there, data was put before the archive."""
    candidates = [0, end - size - offset]
    for base in candidates:
        start = base + offset
        if base < 0 or start + size > end:
            continue
        if not entries or source.read(start, 4) == _ENTRY_SIGNATURE:
            return base
    raise MalformedError(f"{source.name} has no zip directory", where=f"expected {size} bytes at {offset}")


def zip64_values(extra: bytes) -> Iterator[int]:
    """The 8-byte values of the zip64 extra field (header 0x0001), in order: size, packed size, offset."""
    position, header = 0, Struct("<2H")
    while position + 4 <= len(extra):
        kind, length = header.unpack_from(extra, position)
        if kind == 1:
            body = extra[position + 4 : position + 4 + min(length, 24)]
            yield from (int.from_bytes(body[i : i + 8], "little") for i in range(0, len(body) - 7, 8))
            return
        position += 4 + length
