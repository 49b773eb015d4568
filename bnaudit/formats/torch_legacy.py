"""Checkpoints that torch.save wrote before PyTorch 1.6."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Description, Part
from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

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


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of the part. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.linear_layers import checkpoint_layers
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.pickles.legacy_stream import LegacyStream
    from bnaudit.reading.tensors.torch_tensors import TorchTensors

    source = candidate.source
    assert source is not None  # claimed by its content
    stream = LegacyStream(source)
    tally = Tally(source.caps, source.name)
    yield checkpoint_layers(stream.root, TorchTensors(stream.storages), part, part.name, tally)


FORMAT = Format(
    name=NAME,
    suffixes=(".pth", ".pt", ".th", ".ckpt", ".bin", ".pth.tar"),
    claims=claims,
    read=read,
    linear=linear,
)
