"""The opcodes that push bytes and text (Lib/pickletools.py). Long values stay in the file."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from bnaudit.errors import MalformedError
from bnaudit.reading.pickles.stand_ins import LazyBytes
from bnaudit.reading.pickles.state import LAZY_BYTES, Handler, PickleState, text_bytes

if TYPE_CHECKING:
    import re

LONGEST_INLINE = 4096
"""Longer bytes and text stay in the file as LazyBytes."""
_TEXT_BYTES = 80
_LINE_STEPS, _ESCAPE_STEPS = 3, 2
"""Opcodes that take as long as a line of text and as one escape in it."""
_ESCAPES = {
    b"\n": b"",
    b"\\": b"\\",
    b"'": b"'",
    b'"': b'"',
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}
_int32 = Struct("<i").unpack_from
_uint32 = Struct("<I").unpack_from
_uint64 = Struct("<Q").unpack_from


class EscapedLine(LazyBytes):
    """A long quoted string of protocol 0, left in the file with its escapes."""

    __slots__ = ()

    def read(self) -> bytes:
        """The bytes that the string stands for; UTF-8 for text."""
        raw = super().read()
        return _unescape_text(raw).encode("utf-8", "surrogatepass") if self.text else _unescape(raw)


def _string_line(state: PickleState) -> None:
    """A quoted Python 2 string. Bytes stay what they are as Latin-1 text."""
    state.charge(_LINE_STEPS)
    start, line = state.offset, state.line(state.source.caps.value_bytes)
    quoted = line.strip()
    if len(quoted) < 2 or quoted[0] != quoted[-1] or quoted[:1] not in (b"'", b'"'):
        raise state.malformed("a string without quotes")
    state.memory += LAZY_BYTES
    if len(quoted) > LONGEST_INLINE:
        first = start + line.index(quoted) + 1
        state.stack.append(EscapedLine(state.source, first, len(quoted) - 2, text=False))
    else:
        state.charge(_ESCAPE_STEPS * quoted.count(b"\\"))
        state.memory += len(quoted)
        state.stack.append(_unescape(quoted[1:-1]).decode("latin-1"))


def _unicode_line(state: PickleState) -> None:
    state.charge(_LINE_STEPS)
    start, line = state.offset, state.line(state.source.caps.value_bytes)
    state.memory += LAZY_BYTES
    if len(line) > LONGEST_INLINE:
        state.stack.append(EscapedLine(state.source, start, len(line), text=True))
    else:
        state.memory += 4 * len(line)
        state.stack.append(_unescape_text(line))


def _unescape(raw: bytes) -> bytes:
    """What Python 2's repr means; `codecs.escape_decode` would warn of escapes that Python 3 does not know."""
    import re

    try:
        return re.sub(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.?)", _escaped, raw, flags=re.DOTALL)
    except ValueError:
        raise MalformedError("a string of the pickle has a broken escape") from None


def _escaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1].isdigit() and code[0] < 0x38:
        return bytes([int(code, 8) & 0xFF])
    if code[:1] == b"x" or not code:
        return bytes([int(code[1:], 16)])
    return _ESCAPES.get(code, b"\\" + code)


def _unescape_text(raw: bytes) -> str:
    try:
        return raw.decode("raw-unicode-escape")
    except ValueError:
        raise MalformedError("a text of the pickle has a broken escape") from None


def _short_bin_string(state: PickleState) -> None:
    length = state.data[state.pos]
    state.pos += 1
    state.memory += _TEXT_BYTES + length
    state.stack.append(state.take(length).decode("latin-1"))


def _bin_string(state: PickleState) -> None:
    """A Python 2 string: Latin-1 text, which keeps the bytes of arrays."""
    (length,) = _int32(state.data, state.pos)
    state.pos += 4
    if length < 0:
        raise state.malformed("a string of negative length")
    if length > LONGEST_INLINE:
        _push_lazy(state, length, text=False)
    else:
        state.memory += _TEXT_BYTES + length
        state.stack.append(state.take(length).decode("latin-1"))


def _short_bin_bytes(state: PickleState) -> None:
    length = state.data[state.pos]
    state.pos += 1
    state.memory += _TEXT_BYTES + length
    state.stack.append(state.take(length))


def _bin_bytes(state: PickleState) -> None:
    (length,) = _uint32(state.data, state.pos)
    state.pos += 4
    _push_bytes(state, length)


def _bin_bytes8(state: PickleState) -> None:
    (length,) = _uint64(state.data, state.pos)
    state.pos += 8
    _push_bytes(state, length)


def _push_bytes(state: PickleState, length: int) -> None:
    if length > LONGEST_INLINE:
        _push_lazy(state, length, text=False)
    else:
        state.memory += _TEXT_BYTES + length
        state.stack.append(state.take(length))


def _short_bin_unicode(state: PickleState) -> None:
    length = state.data[state.pos]
    state.pos += 1
    _push_text(state, length)


def _bin_unicode(state: PickleState) -> None:
    (length,) = _uint32(state.data, state.pos)
    state.pos += 4
    _push_text(state, length)


def _bin_unicode8(state: PickleState) -> None:
    (length,) = _uint64(state.data, state.pos)
    state.pos += 8
    _push_text(state, length)


def _push_text(state: PickleState, length: int) -> None:
    if length > LONGEST_INLINE:
        _push_lazy(state, length, text=True)
        return
    try:
        text = state.take(length).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise state.malformed("text that is not UTF-8") from None
    state.memory += text_bytes(text)
    state.stack.append(text)


def _push_lazy(state: PickleState, length: int, text: bool) -> None:
    start = state.offset
    state.memory += LAZY_BYTES
    state.skip(length)
    state.stack.append(LazyBytes(state.source, start, length, text))


def _out_of_band(state: PickleState) -> None:
    raise state.malformed("a buffer that was kept outside the file")


def _ignore(state: PickleState) -> None:
    """READONLY_BUFFER: everything is read-only here."""


HANDLERS: dict[bytes, Handler] = {
    b"S": _string_line,
    b"T": _bin_string,
    b"U": _short_bin_string,
    b"B": _bin_bytes,
    b"C": _short_bin_bytes,
    b"\x8e": _bin_bytes8,
    b"\x96": _bin_bytes8,
    b"\x97": _out_of_band,
    b"\x98": _ignore,
    b"V": _unicode_line,
    b"X": _bin_unicode,
    b"\x8c": _short_bin_unicode,
    b"\x8d": _bin_unicode8,
}
