"""What a pickle's opcodes work on: the window, the stack with its marks, the memo, the imports, the costs."""

from __future__ import annotations

from collections.abc import Callable

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickle_imports import ImportLog
from bnaudit.reading.pickle_window import Window


class HugeInteger:
    """An integer of more than 64 bytes, not computed: turning it into digits would take quadratic time."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


class OpcodeMeter:
    """Counts opcodes and memory over all pickles of one file.

    Memory is counted in units of about 100 bytes, because a one-byte opcode can make a dict of 300. Three units are
    allowed for four opcodes: real checkpoints need fewer than two for three.
    """

    __slots__ = ("opcodes", "units")

    def __init__(self) -> None:
        self.opcodes = 0
        self.units = 0

    def charge(self, source: ByteSource, opcodes: int, units: int = 0) -> None:
        """Add to the counts. Raises CapExceededError above `caps.pickle_opcodes`."""
        self.opcodes += opcodes
        self.units += units
        limit = source.caps.pickle_opcodes
        if self.opcodes > limit or self.units > limit // 4 * 3:
            raise CapExceededError("the pickle takes too many steps", where=source.name, cap="pickle_opcodes")


class PickleState(Window):
    """The machine between two opcodes.

    `stack` is the part above the last mark, `marks` the parts below it; so no opcode reaches below its mark.
    `units` is the memory not yet charged to the meter.
    """

    __slots__ = ("imports", "marks", "memo", "meter", "stack", "units")

    def __init__(self, source: ByteSource, offset: int, meter: OpcodeMeter, imports: ImportLog) -> None:
        super().__init__(source, offset)
        self.meter = meter
        self.imports = imports
        self.stack: list[object] = []
        self.marks: list[list[object]] = []
        self.memo: dict[int, object] = {}
        self.units = 0

    def above_mark(self) -> list[object]:
        """Take the values above the last mark, and the mark."""
        values = self.stack
        self.stack = self.marks.pop()
        return values

    def malformed(self, what: str) -> UnreadableError:
        """The error for a pickle that no unpickler would accept."""
        return MalformedError(f"the pickle is corrupt: {what}", where=f"{self.source.name}, byte {self.offset}")


Handler = Callable[[PickleState], None]
