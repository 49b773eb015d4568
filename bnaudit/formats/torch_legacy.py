"""Checkpoints that torch.save wrote before PyTorch 1.6."""

from __future__ import annotations

from bnaudit.description import Description
from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.formats import Candidate, Format

NAME = "PyTorch legacy checkpoint"
_MAGIC = 0x1950A86A20F9469CFC6C
_MARKS = (_MAGIC.to_bytes(10, "little"), str(_MAGIC).encode())


def claims(candidate: Candidate) -> bool:
    """The magic number, pickled in any protocol, stands first."""
    return any(mark in candidate.head[:48] for mark in _MARKS)


def read(candidate: Candidate) -> Description:
    """Reads the five pickles and the storages of norm layers. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.description import description
    from bnaudit.reading.pickles.imports import ImportLog
    from bnaudit.reading.pickles.legacy_stream import LegacyStream
    from bnaudit.reading.tensors.torch_tensors import TorchTensors

    source = candidate.source
    if source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the file in it")
    imports = ImportLog()
    with imports.told_in_errors():
        stream = LegacyStream(source, imports=imports)
        missing = stream.storages.missing
        if missing:
            cut = f"storage {missing[0][:80]} and {len(missing) - 1} more are cut off"
            raise MalformedError(f"{source.name} is truncated", where=cut)
        return description(stream.root, imports.imports(), TorchTensors(stream.storages), source, NAME)


FORMAT = Format(name=NAME, suffixes=(".pth", ".pt", ".th", ".ckpt", ".bin", ".pth.tar"), claims=claims, read=read)
