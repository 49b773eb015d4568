"""What `torch.save` writes since PyTorch 1.6: a zip archive with `data.pkl` and one member per storage."""

from __future__ import annotations

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import Pickled, run
from bnaudit.reading.pickles.state import OpcodeMeter
from bnaudit.reading.tensors.torch_tensors import TorchTensors
from bnaudit.reading.tensors.zip_storages import ZipStorages, is_big_endian
from bnaudit.reading.zip_directory import ZipDirectory


def read_archive(
    source: ByteSource, meter: OpcodeMeter | None = None, imports: ImportLog | None = None
) -> tuple[Pickled, TorchTensors]:
    """The pickle of an archive and the reader of its tensors.

    Raises MalformedError for a broken archive or pickle, CapExceededError above the caps.
    """
    archive = ZipDirectory(source)
    pickled = run(archive.open(archive.record_prefix() + "data.pkl"), 0, meter, imports)
    return pickled, TorchTensors(ZipStorages(archive), big_endian=is_big_endian(archive))
