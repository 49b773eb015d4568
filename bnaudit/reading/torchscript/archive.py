"""The records of a TorchScript archive (PyTorch 1.4 to 2.13): pickles, each with a folder of storages, and code."""

from __future__ import annotations

from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.state import OpcodeMeter
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors
from bnaudit.reading.tensors.zip_storages import ZipStorages, is_big_endian
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.facts import example_inputs
from bnaudit.reading.torchscript.objects import ObjectTree
from bnaudit.reading.zip_directory import ZipDirectory


class ScriptArchive:
    """An opened archive. `library` is its code and collects the gaps; `imports` what its pickles name.

    Raises MalformedError for a broken directory.
    """

    def __init__(self, source: ByteSource) -> None:
        self.members = ZipDirectory(source)
        self.prefix = self.members.record_prefix()
        self.library = CodeLibrary(self.members, self.prefix, source.caps)
        self.imports = ImportLog()
        self._meter = OpcodeMeter()
        self._tally = Tally(source.caps, source.name)
        self._big_endian = is_big_endian(self.members)

    def tree(self, record: str) -> ObjectTree:
        """The objects of `data.pkl` or `constants.pkl`. Raises MalformedError, CapExceededError."""
        found = ObjectTree(self.value(record), self._tensors(record), self._tally)
        if not found.complete:
            self.library.report(f"{record}.pkl", "its objects are nested beyond reason: the deepest are left out")
        return found

    def value(self, record: str) -> object:
        """What a pickle holds, as stand-ins. Raises MalformedError, CapExceededError."""
        return run(self.members.open(f"{self.prefix}{record}.pkl"), 0, self._meter, self.imports).root

    def has(self, record: str) -> bool:
        """Whether there is such a pickle."""
        return f"{self.prefix}{record}.pkl" in self.members

    def examples(self) -> list[TensorRef | None]:
        """The example inputs of a trace, not their values; empty when there are none."""
        if not self.has("traced_inputs"):
            return []
        try:
            return example_inputs(self.value("traced_inputs"), self._tensors("traced_inputs"))
        except UnreadableError as error:
            self.library.report("traced_inputs.pkl", str(error), hides_norms=False)
            return []

    def _tensors(self, record: str) -> TorchTensors:
        return TorchTensors(ZipStorages(self.members, f"{self.prefix}{record}/"), big_endian=self._big_endian)
