"""The directory of a zip archive, read with positioned reads and without `zipfile`.

Specification: PKWARE APPNOTE 6.3.10. Where readers differ, PyTorch's (miniz) is followed, because the question is
what torch would load: sizes come from the central directory (torch leaves them 0 in the local headers), data offsets
from the local header (torch pads its extra field to 64 bytes), and CRCs are not enforced.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct
from typing import NamedTuple

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource, MemorySource
from bnaudit.reading.zip_end import CentralDirectory, find_central_directory, zip64_values

_ENTRY = Struct("<4s6H3I5H2I")
_LOCAL = Struct("<4s5H3I2H")
_uint32 = Struct("<I").unpack_from
_three_lengths = Struct("<3H").unpack_from
_ENTRY_SIGNATURE = b"PK\x01\x02"
_LOCAL_SIGNATURE = b"PK\x03\x04"
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_ABSENT = 0xFFFFFFFF


class _Entry(NamedTuple):
    flags: int
    method: int
    packed: int
    """Bytes in the archive."""
    size: int
    """Bytes of the member."""
    header: int
    """Offset of the local header in the source."""


class ZipDirectory:
    """The members of a zip archive in directory order.

    Raises MalformedError when there is no whole directory, or when two members have one name (readers disagree about
    which is meant), CapExceededError above `caps.archive_members` or `caps.header_bytes`.
    """

    __slots__ = ("_base", "_data", "_headers", "_inflated", "_limit", "_places", "_source", "names")

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        end = find_central_directory(source)
        self._data = source.read(end.offset, end.size)
        self._base = end.base
        self._limit = end.offset
        self._inflated = 0
        self._places = self._index(end)
        self.names: tuple[str, ...] = tuple(self._places)
        self._headers: array[int] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def size(self, name: str) -> int:
        """Bytes of a member after decompression, as declared. Raises MalformedError when there is no such member."""
        return self._entry(name).size

    def record_prefix(self) -> str:
        """The top folder of a torch archive with its slash (`archive/`), "" when the first member is in none.

        torch takes the folder of the first member, whatever its name.
        """
        folder, slash, _ = (self.names[0] if self.names else "").partition("/")
        return folder + slash if slash else ""

    def open(self, name: str) -> ByteSource:
        """A member's bytes: a slice of the file when stored, in memory when deflated.

        Raises MalformedError for a missing, encrypted, overlapping or lying member, CapExceededError above
        `caps.header_bytes` inflated at once or `caps.tensor_bytes` inflated in all.
        """
        entry = self._entry(name)
        if entry.flags & _ENCRYPTED:
            raise MalformedError(f"{name} is encrypted", where=self._source.name, remedy="decrypt the archive first")
        if entry.method not in (_STORED, _DEFLATED):
            raise MalformedError(
                f"{name} is compressed with method {entry.method}",
                where=self._source.name,
                remedy="pack the archive again, stored or deflated",
            )
        packed = self._source.slice(self._data_offset(name, entry), entry.packed, f"{self._source.name}:{name}")
        if entry.method == _DEFLATED:
            return self._inflate(packed, entry.size)
        if entry.packed != entry.size:
            raise self._lie(name, f"{entry.size} bytes declared, {entry.packed} stored")
        return packed

    def _index(self, end: CentralDirectory) -> dict[str, int]:
        """Name to the offset of its entry in the directory."""
        data, position, places = self._data, 0, {}
        for number in range(end.entries):
            if data[position : position + 4] != _ENTRY_SIGNATURE or position + _ENTRY.size > len(data):
                raise self._broken(f"entry {number} of {end.entries} is not there")
            name_length, extra, comment = _three_lengths(data, position + 28)
            start = position + _ENTRY.size
            raw = data[start : start + name_length]
            name = raw.decode("utf-8", "backslashreplace")
            if name in places:
                raise self._broken(f"two members are named {name[:80]!r}")
            places[name] = position
            position = start + name_length + extra + comment
        if position > len(data):
            raise self._broken("the last entry is cut off")
        return places

    def _entry(self, name: str) -> _Entry:
        position = self._places.get(name)
        if position is None:
            raise MalformedError(f"there is no {name} in the archive", where=self._source.name)
        return self._decode(position)

    def _decode(self, position: int) -> _Entry:
        fields = _ENTRY.unpack_from(self._data, position)
        flags, method = fields[3], fields[4]
        packed, size, name_length, extra_length, header = fields[8], fields[9], fields[10], fields[11], fields[16]
        if _ABSENT in (packed, size, header):
            start = position + _ENTRY.size + name_length
            wide = zip64_values(self._data[start : start + extra_length])
            try:
                size = next(wide) if size == _ABSENT else size
                packed = next(wide) if packed == _ABSENT else packed
                header = next(wide) if header == _ABSENT else header
            except StopIteration:
                raise self._broken("a large member has no zip64 sizes") from None
        if self._base + header > self._limit:
            raise self._broken("a member starts behind the directory")
        return _Entry(flags, method, packed, size, self._base + header)

    def _header(self, position: int) -> int:
        """Offset of a member's local header: `_decode(position).header` without the rest."""
        header: int = _uint32(self._data, position + 42)[0]
        wide = header == _ABSENT or self._base + header > self._limit
        return self._decode(position).header if wide else self._base + header

    def _data_offset(self, name: str, entry: _Entry) -> int:
        """Where the data of a member starts; it must end before whatever comes next."""
        if self._headers is None:
            self._headers = array("Q", sorted(map(self._header, self._places.values())))
        following = bisect_right(self._headers, entry.header)
        limit = self._headers[following] if following < len(self._headers) else self._limit
        if entry.header + _LOCAL.size > limit:
            raise self._lie(name, "its header is outside the archive")
        fields = _LOCAL.unpack(self._source.read(entry.header, _LOCAL.size))
        if fields[0] != _LOCAL_SIGNATURE:
            raise self._lie(name, f"no header at {entry.header}")
        offset: int = entry.header + _LOCAL.size + fields[9] + fields[10]
        if offset + entry.packed > limit:
            raise self._lie(name, "it overlaps what follows")
        return offset

    def _inflate(self, packed: ByteSource, size: int) -> MemorySource:
        import zlib

        caps = self._source.caps
        if size > caps.header_bytes:
            raise CapExceededError(f"{packed.name} inflates to {size} bytes", where="zip archive", cap="header_bytes")
        self._inflated += size
        if self._inflated > caps.tensor_bytes:
            raise CapExceededError("the deflated members together", where=self._source.name, cap="tensor_bytes")
        try:
            data = zlib.decompressobj(-15).decompress(packed.read(0, packed.size), size + 1)
        except zlib.error as error:
            raise MalformedError(f"{packed.name} does not inflate", where=str(error)) from error
        if len(data) != size:
            amount = "more" if len(data) > size else f"only {len(data)}"
            raise MalformedError(f"{packed.name} declares {size} bytes", where=f"it inflates to {amount}")
        return MemorySource(data, packed.name, self._source)

    def _broken(self, what: str) -> UnreadableError:
        return MalformedError("the zip directory is corrupt", where=f"{self._source.name}: {what}")

    def _lie(self, name: str, what: str) -> UnreadableError:
        return MalformedError(f"the archive member {name} is corrupt", where=f"{self._source.name}: {what}")
