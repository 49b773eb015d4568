"""torch.save's format before 1.6: a row of pickles, then every storage as an element count and its bytes.

Magic number, protocol version and machine facts come as three pickles, then the object, then the list of storage
keys (torch/serialization.py, `_legacy_save`). Numbers and elements are little-endian on every machine.
"""

from __future__ import annotations

from bnaudit.errors import MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import OpcodeMeter, run
from bnaudit.reading.pickles.stand_ins import PersistentId
from bnaudit.reading.tensors.element_types import element_bytes
from bnaudit.reading.tensors.strided_tensor import storage_part

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_COUNT_BYTES = 8


class LegacyStorages:
    """`find(key)` is the bytes behind the key's element count.

    `missing` are the keys whose bytes are not all there, because the file ends early.
    """

    __slots__ = ("_places", "_source", "missing")

    def __init__(
        self, source: ByteSource, offset: int, keys: list[object], persistent_ids: tuple[PersistentId, ...]
    ) -> None:
        """`offset` is where the storages start, `keys` their order, `persistent_ids` say the type of each."""
        self._source = source
        self._places: dict[str, tuple[int, int]] = {}
        widths = _element_widths(persistent_ids)
        named = [key for key in keys if isinstance(key, str) and key in widths]
        if len(named) != len(keys):
            raise MalformedError(f"{len(keys) - len(named)} storages belong to no tensor", where=source.name)
        for key in named:
            width = widths[key]
            if offset + _COUNT_BYTES > source.size:
                break
            count = int.from_bytes(source.read(offset, _COUNT_BYTES), "little", signed=True)
            start = offset + _COUNT_BYTES
            offset = start + count * width
            if count < 0 or offset > source.size:
                break
            self._places[key] = start, count * width
        self.missing = tuple(key for key in named if key not in self._places)

    def find(self, key: str) -> ByteSource:
        """The bytes of one storage. Raises MalformedError when they are not there."""
        place = self._places.get(key)
        if place is None:
            raise MalformedError(f"storage {key[:80]} is not in the file", where=self._source.name)
        return self._source.slice(*place)


class LegacyStream:
    """One file of the old format: `root` is the saved object, `storages` what its tensors point into."""

    __slots__ = ("end", "root", "storages")

    def __init__(self, source: ByteSource, meter: OpcodeMeter | None = None, imports: ImportLog | None = None) -> None:
        """Raises MalformedError when the file is not of this format or breaks off before its storages."""
        meter, imports = meter or OpcodeMeter(), imports or ImportLog()
        magic = run(source, 0, meter, imports)
        if magic.root != MAGIC_NUMBER:
            raise MalformedError(f"{source.name} is no old torch file", where="it has another magic number")
        version = run(source, magic.end, meter, imports)
        machine = run(source, version.end, meter, imports)
        saved = run(source, machine.end, meter, imports)
        keys = run(source, saved.end, meter, imports)
        if not isinstance(keys.root, list):
            raise MalformedError(f"{source.name} is corrupt", where="the list of its storages is none")
        self.root = saved.root
        self.end = keys.end
        self.storages = LegacyStorages(source, keys.end, keys.root, saved.persistent_ids)


def _element_widths(persistent_ids: tuple[PersistentId, ...]) -> dict[str, int]:
    """Bytes per element by storage key; the first mention of a key decides, as in torch."""
    widths: dict[str, int] = {}
    for persistent_id in persistent_ids:
        part = storage_part(persistent_id)
        if part is not None:
            widths.setdefault(part.key, element_bytes(part.dtype))
    return widths
