"""What a pickle's opcodes work on: the window, the stack with its marks, the memo, the imports, the costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.stand_ins import Call, Global, LazyBytes, PersistentId
from bnaudit.reading.pickles.window import Window

if TYPE_CHECKING:
    from bnaudit.reading.tensors.strided_tensor import Storages

OPCODE_BYTES = 9
"""What a place on the stack takes. This and what follows was measured with CPython 3.11 and rounded up."""
TUPLE_BYTES, LIST_BYTES, DICT_BYTES, CALL_BYTES, LAZY_BYTES = 60, 64, 160, 90, 130
ITEM_BYTES, PAIR_BYTES, IDENTITY_BYTES = 12, 110, 60
"""What an item adds to a list, a pair to a dict, and a key that is compared by identity to a pair."""
MEMO_BYTES = 95


def text_bytes(value: str | bytes) -> int:
    """What a str or bytes takes at most."""
    return 54 + len(value) if value.isascii() else 90 + 4 * len(value)


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
    """Counts opcodes and bytes of memory over all pickles of one file.

    Memory is counted beside opcodes because a one-byte opcode can make a dict of hundreds of bytes. The estimate is
    never below what the values take; what is popped or replaced is not given back.
    """

    __slots__ = ("memory", "nesting", "opcodes")

    def __init__(self) -> None:
        self.nesting = 0
        self.opcodes = 0
        self.memory = 0

    def charge(self, source: ByteSource, opcodes: int, memory: int = 0) -> None:
        """Add to the counts. Raises CapExceededError above `caps.pickle_opcodes` or `caps.pickle_memory`."""
        self.opcodes += opcodes
        self.memory += memory + OPCODE_BYTES * opcodes
        if self.opcodes > source.caps.pickle_opcodes:
            raise CapExceededError("the pickle takes too many steps", where=source.name, cap="pickle_opcodes")
        if self.memory > source.caps.pickle_memory:
            raise CapExceededError("the pickle takes too much memory", where=source.name, cap="pickle_memory")


class PickleState(Window):
    """The machine between two opcodes.

    `stack` is the part above the last mark, `marks` the parts below it; so no opcode reaches below its mark.
    `memory` is what is not yet charged to the meter, in bytes.
    """

    __slots__ = ("embedded", "imports", "marks", "memo", "memory", "meter", "persistent_ids", "stack")

    def __init__(self, source: ByteSource, offset: int, meter: OpcodeMeter, imports: ImportLog) -> None:
        super().__init__(source, offset)
        self.meter = meter
        self.imports = imports
        self.stack: list[object] = []
        self.marks: list[list[object]] = []
        self.memo: dict[int, object] = {}
        self.memory = 0
        self.persistent_ids: list[PersistentId] = []
        self.embedded: list[EmbeddedFile] = []

    def above_mark(self) -> list[object]:
        """Take the values above the last mark, and the mark."""
        values = self.stack
        self.stack = self.marks.pop()
        return values

    def taken(self) -> tuple[object, ...]:
        """The values above the last mark as a tuple."""
        values = tuple(self.above_mark())
        self.memory += TUPLE_BYTES + 8 * len(values)
        return values

    def charge(self, opcodes: int = 0) -> None:
        """Charge the memory so far, and opcodes, to the meter. Raises CapExceededError."""
        memory = self.memory + self.imports.uncharged
        self.memory = self.imports.uncharged = 0
        self.meter.charge(self.source, opcodes, memory)

    def malformed(self, what: str) -> UnreadableError:
        """The error for a pickle that no unpickler would accept."""
        return MalformedError(f"the pickle is corrupt: {what}", where=f"{self.source.name}, byte {self.offset}")


Handler = Callable[[PickleState], None]
