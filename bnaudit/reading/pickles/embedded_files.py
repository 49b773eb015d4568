"""torch files inside a pickle: `torch.storage._load_from_bytes(b"…")`, which plain `pickle.dump` writes per storage.

Unpickling loads them with all that they import, so they are read like any torch file and their imports are logged.
"""

from __future__ import annotations

from collections.abc import Iterable

from bnaudit.errors import CapExceededError, UnreadableError
from bnaudit.reading.byte_source import ByteSource, MemorySource
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.legacy_stream import LegacyStream
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import LazyBytes
from bnaudit.reading.pickles.state import EmbeddedFile, OpcodeMeter
from bnaudit.reading.tensors.strided_tensor import Storages
from bnaudit.reading.tensors.zip_storages import ZipStorages
from bnaudit.reading.zip_directory import ZipDirectory

_DEEPEST = 8
_OPCODES_PER_FILE = 500
"""What starting on one costs beside its opcodes."""
_LARGEST_KEPT = 1 << 20
"""Bytes in memory that are kept until tensors are read: enough for a norm layer of 250,000 channels."""


def read_embedded(files: Iterable[EmbeddedFile], meter: OpcodeMeter, imports: ImportLog) -> None:
    """Fill in the contents of the files that a pickle embeds. What is wrong with one stays with that one."""
    meter.nesting += 1
    try:
        for file in files:
            meter.charge(file.place.source, _OPCODES_PER_FILE)
            try:
                source = _open(file.place)
            except UnreadableError as error:
                file.error = error
                continue
            _fill(file, source, meter, imports)
    finally:
        meter.nesting -= 1


def _open(place: LazyBytes) -> ByteSource:
    """The file's bytes: a part of the pickle, or in memory when the pickle writes them as text."""
    if type(place) is LazyBytes:
        return place.source.slice(place.offset, place.length)
    return MemorySource(place.read(), place.source.name, place.source)


def _fill(file: EmbeddedFile, source: ByteSource, meter: OpcodeMeter, imports: ImportLog) -> None:
    if meter.nesting > _DEEPEST:
        raise CapExceededError("files embedded in one another", where=source.name, cap="pickle_depth")
    try:
        root, storages = _read(source, meter, imports)
    except CapExceededError:
        raise
    except UnreadableError as error:
        file.error = error
        return
    if isinstance(source, MemorySource) and source.size > _LARGEST_KEPT:
        file.error = UnreadableError("a large tensor of a text pickle is not read", remedy="save it with torch.save")
    else:
        file.root, file.storages = root, storages


def _read(source: ByteSource, meter: OpcodeMeter, imports: ImportLog) -> tuple[object, Storages]:
    if source.head(4) != b"PK\x03\x04":
        stream = LegacyStream(source, meter, imports)
        return stream.root, stream.storages
    archive = ZipDirectory(source)
    saved = run(archive.open(archive.record_prefix() + "data.pkl"), 0, meter, imports)
    return saved.root, ZipStorages(archive)
