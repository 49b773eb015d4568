"""The opcodes that move values between the stack, its marks and the memo (Lib/pickletools.py)."""

from __future__ import annotations

from struct import Struct

from bnaudit.errors import CapExceededError
from bnaudit.reading.pickles.state import MEMO_BYTES, Handler, PickleState

_LONGEST_INDEX = 20
_uint32 = Struct("<I").unpack_from


class Stopped(Exception):
    """STOP was reached."""


def _stop(state: PickleState) -> None:
    raise Stopped


def _mark(state: PickleState) -> None:
    if len(state.marks) >= state.source.caps.pickle_depth:
        raise CapExceededError("a pickle nested too deeply", where=state.source.name, cap="pickle_depth")
    state.marks.append(state.stack)
    state.stack = []


def _pop(state: PickleState) -> None:
    if state.stack:
        state.stack.pop()
    else:
        state.above_mark()


def _pop_mark(state: PickleState) -> None:
    state.above_mark()


def _dup(state: PickleState) -> None:
    state.stack.append(state.stack[-1])


def _get(state: PickleState) -> None:
    state.stack.append(state.memo[_memo_index(state)])


def _bin_get(state: PickleState) -> None:
    state.stack.append(state.memo[state.data[state.pos]])
    state.pos += 1


def _long_bin_get(state: PickleState) -> None:
    state.stack.append(state.memo[_uint32(state.data, state.pos)[0]])
    state.pos += 4


def _put(state: PickleState) -> None:
    state.memory += MEMO_BYTES
    state.memo[_memo_index(state)] = state.stack[-1]


def _bin_put(state: PickleState) -> None:
    state.memory += MEMO_BYTES
    state.memo[state.data[state.pos]] = state.stack[-1]
    state.pos += 1


def _long_bin_put(state: PickleState) -> None:
    state.memory += MEMO_BYTES
    state.memo[_uint32(state.data, state.pos)[0]] = state.stack[-1]
    state.pos += 4


def _memoize(state: PickleState) -> None:
    state.memory += MEMO_BYTES
    state.memo[len(state.memo)] = state.stack[-1]


def _memo_index(state: PickleState) -> int:
    line = state.line(_LONGEST_INDEX)
    if not line.isdigit():
        raise state.malformed("a memo index that is none")
    return int(line)


HANDLERS: dict[bytes, Handler] = {
    b".": _stop,
    b"(": _mark,
    b"0": _pop,
    b"1": _pop_mark,
    b"2": _dup,
    b"g": _get,
    b"h": _bin_get,
    b"j": _long_bin_get,
    b"p": _put,
    b"q": _bin_put,
    b"r": _long_bin_put,
    b"\x94": _memoize,
}
