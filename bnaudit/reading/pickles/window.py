"""A moving window over the bytes of a pickle: positioned reads that grow while reading on and skip long values."""

from __future__ import annotations

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource

_FIRST_BLOCK = 512
_LARGEST_BLOCK = 256 << 10
LONGEST_FIXED = 9
"""An opcode with a fixed argument takes at most 9 bytes."""


class Window:
    """`data` holds the bytes of `source` from `base` on; `pos` is the next one, relative to `base`.

    While `pos <= safe`, an opcode and its fixed argument are in `data` (or the source ends).
    """

    __slots__ = ("_block", "_kept", "base", "data", "pos", "safe", "source")

    def __init__(self, source: ByteSource, offset: int) -> None:
        self.source = source
        self.base = offset
        self.data = b""
        self.pos = 0
        self.safe = -1
        self._block = _FIRST_BLOCK
        self._kept = 0

    @property
    def offset(self) -> int:
        """The offset of the next byte in the source."""
        return self.base + self.pos

    def refill(self, need: int = LONGEST_FIXED) -> None:
        """Move the window to `pos`, with `need` bytes in it if the source has them.

        Raises CapExceededError when more than `caps.header_bytes` were read this way.
        """
        rest = self.data[self.pos :]
        self.base += self.pos
        missing = min(max(self._block, need) - len(rest), self.source.size - self.base - len(rest))
        self._kept += max(missing, 0)
        if self._kept > self.source.caps.header_bytes:
            raise CapExceededError("a pickle without its long values", where=self.source.name, cap="header_bytes")
        self.data = rest + self.source.read(self.base + len(rest), missing) if missing > 0 else rest
        self.pos = 0
        at_end = self.base + len(self.data) >= self.source.size
        self.safe = len(self.data) if at_end else len(self.data) - LONGEST_FIXED
        self._block = min(self._block * 4, _LARGEST_BLOCK)

    def skip(self, length: int) -> None:
        """Pass over `length` bytes without reading more of them than are in the window.

        Raises MalformedError when the source ends before.
        """
        if self.offset + length > self.source.size:
            raise MalformedError("the pickle ends early", where=f"{self._here()}: {length} bytes wanted")
        self._kept -= min(length, len(self.data) - self.pos)
        self._block = _FIRST_BLOCK
        self.pos += length

    def take(self, length: int) -> bytes:
        """The next `length` bytes. Raises MalformedError when the source ends before."""
        end = self.pos + length
        if end > len(self.data):
            self.refill(length)
            end = length
            if end > len(self.data):
                raise MalformedError("the pickle ends early", where=f"{self._here()}: {length} bytes wanted")
        taken = self.data[self.pos : end]
        self.pos = end
        return taken

    def line(self, longest: int) -> bytes:
        """The bytes up to the next newline, which is consumed.

        Raises MalformedError when none comes, CapExceededError when it is further than `longest` bytes away.
        """
        end = self.data.find(b"\n", self.pos)
        while end < 0:
            size, room = len(self.data) - self.pos, self.source.size - self.offset
            if size > longest:
                raise CapExceededError("a line of a pickle", where=self._here(), cap="value_bytes")
            if size >= room:
                raise MalformedError("the pickle ends early", where=f"{self._here()}: a line without an end")
            self.refill(max(2 * size, LONGEST_FIXED))
            end = self.data.find(b"\n", size)
        if end - self.pos > longest:
            raise CapExceededError("a line of a pickle", where=self._here(), cap="value_bytes")
        taken = self.data[self.pos : end]
        self.pos = end + 1
        return taken

    def _here(self) -> str:
        return f"{self.source.name}, byte {self.offset}"
