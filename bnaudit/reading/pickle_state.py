"""What a pickle's opcodes work on: the window, the stack with its marks, the memo, the imports, the costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickle_imports import ImportLog
from bnaudit.reading.pickle_window import Window
from bnaudit.reading.stand_ins import Call, Global, LazyBytes, PersistentId

if TYPE_CHECKING:
    from bnaudit.reading.strided_tensor import Storages

DICT_UNITS, CALL_UNITS = 3, 2
"""What these take in the meter's units of memory."""


class HugeInteger:
    """An integer of more than 64 bytes, not computed: turning it into digits would take quadratic time."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


class EmbeddedFile(Call):
    """A call of `torch.storage._load_from_bytes`: a torch file inside the pickle, at `place`.

    After the run it has the `root` and the `storages` of that file, or the `error` that kept them from being read.
    """

    __slots__ = ("error", "place", "root", "storages")

    def __init__(self, callee: Global, place: LazyBytes) -> None:
        super().__init__(callee, (place,))
        self.place = place
        self.root: object = None
        self.storages: Storages | None = None
        self.error: UnreadableError | None = None


class OpcodeMeter:
    """Counts opcodes and memory over all pickles of one file.

    Memory is counted in units of about 100 bytes, because a one-byte opcode can make a dict of 300. Three units are
    allowed for four opcodes: real checkpoints need fewer than two for three.
    """

    __slots__ = ("nesting", "opcodes", "units")

    def __init__(self) -> None:
        self.nesting = 0
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

    __slots__ = ("embedded", "imports", "marks", "memo", "meter", "persistent_ids", "stack", "units")

    def __init__(self, source: ByteSource, offset: int, meter: OpcodeMeter, imports: ImportLog) -> None:
        super().__init__(source, offset)
        self.meter = meter
        self.imports = imports
        self.stack: list[object] = []
        self.marks: list[list[object]] = []
        self.memo: dict[int, object] = {}
        self.units = 0
        self.persistent_ids: list[PersistentId] = []
        self.embedded: list[EmbeddedFile] = []

    def above_mark(self) -> list[object]:
        """Take the values above the last mark, and the mark."""
        values = self.stack
        self.stack = self.marks.pop()
        return values

    def malformed(self, what: str) -> UnreadableError:
        """The error for a pickle that no unpickler would accept."""
        return MalformedError(f"the pickle is corrupt: {what}", where=f"{self.source.name}, byte {self.offset}")


Handler = Callable[[PickleState], None]
