"""The opcodes that push None, booleans and numbers, and the two that only frame a pickle (Lib/pickletools.py)."""

from __future__ import annotations

from struct import Struct

from bnaudit.reading.pickles.state import Handler, HugeInteger, PickleState

_LONGEST_INTEGER = 64
_LONGEST_DIGITS = 156
"""A sign and the digits of 64 bytes."""
_LONGEST_NUMBER = 1 << 20
_int32 = Struct("<i").unpack_from
_uint16 = Struct("<H").unpack_from
_float64 = Struct(">d").unpack_from
_NUMBER_BYTES, _HUGE_BYTES = 33, 150


def _none(state: PickleState) -> None:
    state.stack.append(None)


def _true(state: PickleState) -> None:
    state.stack.append(True)


def _false(state: PickleState) -> None:
    state.stack.append(False)


def _bin_int(state: PickleState) -> None:
    state.memory += _NUMBER_BYTES
    state.stack.append(_int32(state.data, state.pos)[0])
    state.pos += 4


def _bin_int1(state: PickleState) -> None:
    state.stack.append(state.data[state.pos])
    state.pos += 1


def _bin_int2(state: PickleState) -> None:
    state.memory += _NUMBER_BYTES
    state.stack.append(_uint16(state.data, state.pos)[0])
    state.pos += 2


def _bin_float(state: PickleState) -> None:
    state.memory += _NUMBER_BYTES
    state.stack.append(_float64(state.data, state.pos)[0])
    state.pos += 8


def _long1(state: PickleState) -> None:
    length = state.data[state.pos]
    state.pos += 1
    _push_integer(state, length)


def _long4(state: PickleState) -> None:
    (length,) = _int32(state.data, state.pos)
    state.pos += 4
    if length < 0:
        raise state.malformed("an integer of negative length")
    _push_integer(state, length)


def _push_integer(state: PickleState, length: int) -> None:
    if length > _LONGEST_INTEGER:
        state.memory += _HUGE_BYTES
        state.skip(length)
        state.stack.append(HugeInteger(length))
    else:
        state.memory += _NUMBER_BYTES + length
        state.stack.append(int.from_bytes(state.take(length), "little", signed=True))


def _int_line(state: PickleState) -> None:
    line = state.line(_LONGEST_NUMBER)
    if line in (b"00", b"01"):
        state.stack.append(line == b"01")
    else:
        state.stack.append(_parse_integer(state, line))


def _long_line(state: PickleState) -> None:
    line = state.line(_LONGEST_NUMBER)
    state.stack.append(_parse_integer(state, line[:-1] if line.endswith(b"L") else line))


def _parse_integer(state: PickleState, digits: bytes) -> int | HugeInteger:
    state.memory += _HUGE_BYTES
    if len(digits) > _LONGEST_DIGITS:
        return HugeInteger(len(digits))
    try:
        return int(digits, 0)
    except ValueError:
        raise state.malformed("an integer that is none") from None


def _float_line(state: PickleState) -> None:
    state.memory += _NUMBER_BYTES
    try:
        state.stack.append(float(state.line(_LONGEST_NUMBER)))
    except ValueError:
        raise state.malformed("a number that is none") from None


def _frame(state: PickleState) -> None:
    """FRAME only tells a reader how much to fetch."""
    state.pos += 8


def _proto(state: PickleState) -> None:
    version = state.data[state.pos]
    if version > 5:
        raise state.malformed(f"protocol {version} is not known")
    state.pos += 1


HANDLERS: dict[bytes, Handler] = {
    b"N": _none,
    b"\x88": _true,
    b"\x89": _false,
    b"I": _int_line,
    b"J": _bin_int,
    b"K": _bin_int1,
    b"M": _bin_int2,
    b"L": _long_line,
    b"\x8a": _long1,
    b"\x8b": _long4,
    b"F": _float_line,
    b"G": _bin_float,
    b"\x80": _proto,
    b"\x95": _frame,
}
