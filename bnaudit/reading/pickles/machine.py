"""Reads a pickle of any protocol (0 to 5) without running it.

Unpickling calls whatever the file names. This loop only records what would be called, as the stand-ins of
`stand_ins.py`; it imports nothing, calls nothing and recurses nowhere. Python's own unpickler is not used even with
its hooks: it allocates by the index of LONG_BINPUT and crashes hashing deeply nested keys.
"""

from __future__ import annotations

from struct import error as StructError

from bnaudit.description import PickleImport
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles import calls, containers, scalars, stack, strings
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.stack import Stopped
from bnaudit.reading.pickles.state import Handler, OpcodeMeter, PickleState

__all__ = ["ImportLog", "OpcodeMeter", "Pickled", "run"]

_BATCH = 1024
"""Opcodes between two looks at the meter."""


class Pickled:
    """One pickle: its value, where it ends, and its persistent ids in file order."""

    __slots__ = ("_log", "end", "persistent_ids", "root")

    def __init__(self, state: PickleState) -> None:
        self.root = state.stack[-1]
        self.end = state.offset
        self.persistent_ids = tuple(state.persistent_ids)
        self._log = state.imports

    @property
    def imports(self) -> tuple[PickleImport, ...]:
        """What it and the other pickles of its log import."""
        return self._log.imports()


def run(
    source: ByteSource, offset: int = 0, meter: OpcodeMeter | None = None, imports: ImportLog | None = None
) -> Pickled:
    """Read the pickle that starts at `offset`.

    `Pickled.end` is the offset after its STOP. Give one `meter` to all pickles of a file, so that the caps hold for
    the file, and an `imports` log to have what was named even when the pickle breaks off.

    Files embedded in it are read too (see embedded_files).

    Raises MalformedError for a pickle that no unpickler would accept, CapExceededError above the caps.
    """
    state = PickleState(source, offset, meter or OpcodeMeter(), imports or ImportLog())
    failure: UnreadableError | None = None
    try:
        _execute(state)
    except UnreadableError as error:
        failure = error
    except (IndexError, KeyError, StructError) as error:
        failure = _explain(state, error)
    if state.embedded:
        from bnaudit.reading.pickles.embedded_files import read_embedded  # which runs this machine on them

        read_embedded(state.embedded, state.meter, state.imports)
    if failure is not None:
        raise failure
    return Pickled(state)


def _execute(state: PickleState) -> None:
    """Run up to and including STOP."""
    handlers, used = _TABLE, 0
    try:
        while True:
            for used in range(1, _BATCH + 1):  # noqa: B007 - read when STOP ends the loop
                position = state.pos
                if position > state.safe:
                    state.refill()
                    position = 0
                state.pos = position + 1
                handlers[state.data[position]](state)
            state.charge(_BATCH)
            used = 0
    except Stopped:
        state.charge(used)
        if not state.stack:
            raise state.malformed("it ends without a value") from None


def _explain(state: PickleState, error: Exception) -> UnreadableError:
    if isinstance(error, KeyError):
        return state.malformed("it refers to an object that it has not made")
    if state.offset >= state.source.size or isinstance(error, StructError):
        return state.malformed("it ends early")
    return state.malformed("it takes from an empty stack")


def _unknown(state: PickleState) -> None:
    raise state.malformed(f"opcode {state.data[state.pos - 1]:#04x} is not known")


def _table() -> list[Handler]:
    table: list[Handler] = [_unknown] * 256
    for family in (calls, containers, scalars, stack, strings):
        for opcode, handler in family.HANDLERS.items():
            table[opcode[0]] = handler
    return table


_TABLE = _table()
