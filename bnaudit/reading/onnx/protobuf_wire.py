"""Protocol Buffers messages, walked field by field without decoding what is not asked for.

The wire format is the one of https://protobuf.dev/programming-guides/encoding: a message is a run of fields, each a
varint key (`number << 3 | wire type`) and a value. Nothing here knows a schema: a field whose key is not expected is
passed over, as protobuf's own parsers do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource

Field = tuple[int, int, int]
"""Key, start, stop. A varint carries its value in `start` and -1 in `stop`; any other field is the bytes between."""

_HEADER = 20  # two varints of ten bytes: the longest key and length
_SMALL_WINDOW = 1 << 10
_LARGE_WINDOW = 1 << 16
_NEAR = 1 << 12  # reading on over a gap of a page is cheaper than another read
_FIELDS_PER_NODE = 4


class WireReader:
    """Fields of messages in a ByteSource, through one window that slides over it.

    The window grows while reading runs on and shrinks to a kilobyte after a jump, so that a graph of small nodes
    takes few reads, and a message full of weights costs only the bytes around them.
    """

    __slots__ = ("_buffer", "_fetched", "_fields", "_start", "_stop", "_width", "source")

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self._buffer = b""
        self._start = 0
        self._stop = 0
        self._width = _SMALL_WINDOW
        self._fetched = 0
        self._fields = _FIELDS_PER_NODE * source.caps.graph_nodes

    def fields(self, start: int, stop: int) -> Iterator[Field]:
        """The fields of the message between two offsets, in file order.

        Raises MalformedError for truncated varints, values that leave the message, groups and unknown wire types;
        CapExceededError when the file holds more fields or header bytes than the caps allow.
        """
        position = start
        while position < stop:
            limit = min(position + _HEADER, stop)
            if position < self._start or limit > self._stop:
                self._slide(position, limit)
            buffer, base = self._buffer, self._start
            at = position - base
            try:
                key = buffer[at]
                at += 1
                if key > 0x7F:
                    key, at = _varint(buffer, at - 1)
                wire_type = key & 7
                if wire_type == 2:
                    length = buffer[at]
                    at += 1
                    if length > 0x7F:
                        length, at = _varint(buffer, at - 1)
                    begin = base + at
                    position = end = begin + length
                elif wire_type == 0:
                    begin, at = _varint(buffer, at)
                    position, end = base + at, -1
                elif wire_type == 5 or wire_type == 1:
                    begin = base + at
                    position = end = begin + (4 if wire_type == 5 else 8)
                else:
                    raise self._broken("a field of a kind that no such file has", position)
            except IndexError:
                raise self._broken("a number that does not end", position) from None
            if position > stop or key < 8:
                raise self._broken("a field that is longer than what holds it", base + at)
            self._fields -= 1
            if self._fields < 0:
                self._count(0)
            yield key, begin, end

    def data(self, start: int, stop: int) -> bytes:
        """The bytes between two offsets."""
        if start < self._start or stop > self._stop:
            if stop - start > _LARGE_WINDOW:
                self._charge(stop - start)
                return self.source.read(start, stop - start)
            self._slide(start, stop)
        return self._buffer[start - self._start : stop - self._start]

    def text(self, start: int, stop: int) -> str:
        """A string field; bytes that are no UTF-8 become replacement characters."""
        return self.data(start, stop).decode("utf-8", "replace")

    def float32(self, start: int) -> float:
        """The value of a 32-bit field."""
        value: float = struct.unpack("<f", self.data(start, start + 4))[0]
        return value

    def varints(self, start: int, stop: int) -> list[int]:
        """A packed run of varints, unsigned as stored."""
        data = self.data(start, stop)
        self._count(_FIELDS_PER_NODE * len(data))
        values, at = [], 0
        try:
            while at < len(data):
                value, at = _varint(data, at)
                values.append(value)
        except IndexError:
            raise self._broken("a number that does not end", start + at) from None
        return values

    def floats(self, start: int, stop: int) -> tuple[float, ...]:
        """A packed run of 32-bit floating numbers. Raises MalformedError when the last one is cut."""
        if (stop - start) % 4:
            raise self._broken("a number that does not end", stop)
        count = (stop - start) // 4
        self._count(_FIELDS_PER_NODE * count)
        return struct.unpack(f"<{count}f", self.data(start, stop))

    def _slide(self, start: int, stop: int) -> None:
        runs_on = self._start <= start <= self._stop + _NEAR
        self._width = min(2 * self._width, _LARGE_WINDOW) if runs_on else _SMALL_WINDOW
        length = min(max(self._width, stop - start), self.source.size - start)
        self._charge(length)
        self._buffer = self.source.read(start, length)
        self._start = start
        self._stop = start + length

    def _charge(self, length: int) -> None:
        self._fetched += length
        if self._fetched > self.source.caps.header_bytes:
            raise CapExceededError("the graph without its weights", where=self.source.name, cap="header_bytes")

    def _count(self, fields: int) -> None:
        self._fields -= fields
        if self._fields < 0:
            raise CapExceededError("too many fields", where=self.source.name, cap="graph_nodes")

    def _broken(self, what: str, offset: int) -> MalformedError:
        return MalformedError(f"{self.source.name} is truncated or corrupt", where=f"{what} at byte {offset}")


def signed(value: int) -> int:
    """A varint of type int64 or int32: two's complement in 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


def _varint(buffer: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and where the next byte is. Raises IndexError when it does not end."""
    byte = buffer[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value, shift = byte & 0x7F, 7
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
