"""The two layouts of .pt2 archives: torch 2.8 and later, and the flat one of torch 2.1 to 2.7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bnaudit.description import Gap
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.exported.weights import ConfiguredWeights, PickleReader, pickled_refs
from bnaudit.reading.json_text import JsonObject, as_object, parse_json
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.zip_storages import is_big_endian
from bnaudit.reading.zip_directory import ZipDirectory

_FLAT_WEIGHTS = ("serialized_state_dict", "serialized_constants")
_CONFIGS = ("_weights_config.json", "_constants_config.json")
_PICKLED = ("/opaque_obj_", "/custom_obj_")


class ArchivedProgram(NamedTuple):
    """One program of an archive."""

    name: str
    program: JsonObject
    """`ExportedProgram` of torch/_export/serde/schema.py."""
    refs: dict[str, TensorRef]


class ExportedArchive:
    """Reads the programs of one archive; what cannot be read around them becomes a Gap."""

    def __init__(self, source: ByteSource) -> None:
        self._archive = ZipDirectory(source)
        self._pickles = PickleReader()
        self.gaps: list[Gap] = []

    @property
    def pickles(self) -> PickleReader:
        """The record of what the pickles inside the archive import."""
        return self._pickles

    def programs(self, members: Sequence[str]) -> Iterator[ArchivedProgram]:
        """The programs in these members, one at a time. Raises MalformedError when the JSON of one is broken."""
        for name in members:
            yield self._in_folder(name) if "/" in name else self._flat(name)
        self._look_into_pickles()
        if any("/data/aotinductor/" in name for name in self._archive.names):
            why = "compiled machine code; only the graph beside it was audited"
            self.gaps.append(Gap(where="data/aotinductor", why=why, hides_norms=False))

    def _flat(self, member: str) -> ArchivedProgram:
        refs: dict[str, TensorRef] = {}
        for stem in _FLAT_WEIGHTS:
            for name in (f"{stem}.pt", f"{stem}.json"):
                if name in self._archive:
                    refs = self._pickled(name) | refs
        return ArchivedProgram("", self._program(member), refs)

    def _in_folder(self, member: str) -> ArchivedProgram:
        root, _, name = member.removesuffix(".json").split("/", 2)
        program = self._program(member)
        refs = self._folder(f"{root}/data/constants/", name) | self._folder(f"{root}/data/weights/", name)
        return ArchivedProgram(name, program, refs)

    def _program(self, member: str) -> JsonObject:
        return as_object(parse_json(self._archive.open(member)), member)

    def _folder(self, folder: str, name: str) -> dict[str, TensorRef]:
        if f"{folder}{name}.pt" in self._archive:  # torch 2.8
            return self._pickled(f"{folder}{name}.pt")
        weights = ConfiguredWeights(self._archive, folder, is_big_endian(self._archive), self._pickles)
        refs: dict[str, TensorRef] = {}
        for ending in _CONFIGS:
            if f"{folder}{name}{ending}" in self._archive:
                refs |= weights.refs(self._archive.open(f"{folder}{name}{ending}"))
        return refs

    def _pickled(self, member: str) -> dict[str, TensorRef]:
        source = self._archive.open(member)
        if source.size == 0:
            return {}
        try:
            return pickled_refs(source, self._pickles)
        except UnreadableError as error:
            self.gaps.append(Gap(where=member, why=str(error)))
            return {}

    def _look_into_pickles(self) -> None:
        """Record what the other pickles import: loading the program would run them too."""
        for member in self._archive.names:
            is_inputs = "/data/sample_inputs/" in member or member == "serialized_example_inputs.pt"
            if not (is_inputs or any(mark in member for mark in _PICKLED)):
                continue
            try:
                source = self._archive.open(member)
                if source.head(4) == b"PK\x03\x04":
                    self._pickles.archive(source)
                elif source.size:
                    self._pickles.bare(source)
            except UnreadableError as error:
                self.gaps.append(Gap(where=member, why=str(error), hides_norms=False))
