"""Models that are spread over files: safetensors or torch.save shards beside one another, merged into one part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bnaudit.caps import Caps
from bnaudit.description import Gap, Part
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.description import describe_checkpoint
from bnaudit.reading.checkpoints.state_dict import describe_state_dict
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.checkpoints.torch_archive import read_archive
from bnaudit.reading.checkpoints.walk import walk
from bnaudit.reading.folders.weight_index import WeightIndex, read_index
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.legacy_stream import LegacyStream
from bnaudit.reading.pickles.state import OpcodeMeter
from bnaudit.reading.safetensors_header import SafetensorsFile
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors
from bnaudit.records import replace

SAFETENSORS = ".safetensors"

Named = list[tuple[str, TensorRef]]


class WeightFiles:
    """Reads weight files one after the other and keeps what they say: parts, gaps, imports, sizes."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self.meter = OpcodeMeter()
        self.tally = Tally(caps)
        self.imports = ImportLog()
        self.parts: list[Part] = []
        self.gaps: list[Gap] = []
        self.has_optimizer: bool | None = None
        self.size = 0
        self.bytes_read = 0

    def index(self, path: Path) -> WeightIndex:
        """Read an index of shards. Raises what read_index raises."""
        with ByteSource.open(path, self.caps) as source:
            try:
                return read_index(source)
            finally:
                self._count(source)

    def add_file(self, path: Path, part_name: str) -> None:
        """A model in one file. Raises UnreadableError when it cannot be read."""
        with ByteSource.open(path, self.caps) as source:
            try:
                if path.name.endswith(SAFETENSORS):
                    part, gaps = describe_state_dict(
                        part_name, list(SafetensorsFile(source).tensors.items()), None, self.tally
                    )
                    self.parts.append(part)
                    self.gaps.extend(gaps)
                else:
                    self._add_pickled(source, part_name)
            finally:
                self._count(source)

    def add_shards(self, folder: Path, shards: Sequence[str], files: Mapping[str, str] | None, part_name: str) -> None:
        """A model in several files. `files` says which shard has which tensor, None when nothing does.

        A shard that cannot be read is a Gap. Raises UnreadableError when none can.
        """
        entries: Named = []
        versions: dict[str, int] = {}
        failures: list[UnreadableError] = []
        with ExitStack() as opened:
            for shard in shards:
                try:
                    source = opened.enter_context(ByteSource.open(folder / shard, self.caps))
                    opened.callback(self._count, source)
                    found, known = self.entries(source)
                except UnreadableError as error:
                    failures.append(error)
                    self.gaps.append(Gap(where=shard, why=str(error)))
                    continue
                entries.extend(entry for entry in found if files is None or files.get(entry[0], shard) == shard)
                versions.update(known or {})
            if len(failures) == len(shards):
                del self.gaps[-len(failures) :]  # the error speaks for them
                raise failures[0]
            part, gaps = describe_state_dict(part_name, entries, versions or None, self.tally)
        self.parts.append(part)
        self.gaps.extend(gaps)
        if files is not None and not failures:
            self._note_missing(files, {name for name, _ in entries})

    def _add_pickled(self, source: ByteSource, part_name: str) -> None:
        contents = describe_checkpoint(*self.pickled(source), source.name, self.tally)
        for part in contents.parts:
            name = ":".join(filter(None, (part_name, part.name)))
            self.parts.append(replace(part, name=name))
        self.gaps.extend(contents.gaps)
        self.has_optimizer = self.has_optimizer or contents.has_optimizer

    def entries(self, source: ByteSource) -> tuple[Named, dict[str, int] | None]:
        """The tensors of one shard by name, and its class versions."""
        if source.name.endswith(SAFETENSORS):
            return list(SafetensorsFile(source).tensors.items()), None
        entries: Named = []
        versions: dict[str, int] = {}
        for held in walk(*self.pickled(source), self.tally).dicts:
            entries.extend((".".join((*held.path, key)), ref) for key, ref in held.entries)
            versions.update(held.versions or {})
        return entries, versions

    def pickled(self, source: ByteSource) -> tuple[object, TorchTensors]:
        """The value of a torch.save file in either layout, and what finds the tensors in it."""
        if source.head(4) == b"PK\x03\x04":
            pickled, tensors = read_archive(source, self.meter, self.imports)
            return pickled.root, tensors
        stream = LegacyStream(source, self.meter, self.imports)
        return stream.root, TorchTensors(stream.storages)

    def _count(self, source: ByteSource) -> None:
        self.size += source.size
        self.bytes_read += source.bytes_read

    def _note_missing(self, files: Mapping[str, str], there: set[str]) -> None:
        missing = [name for name in files if name not in there]
        if missing:
            first = missing[0]
            why = f"the index says that {files[first][:80]} holds it, and it does not ({len(missing)} such tensors)"
            self.gaps.append(Gap(where=first[:200], why=why))
