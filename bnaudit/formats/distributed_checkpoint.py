"""Folders of torch.distributed.checkpoint: `.metadata` beside `*.distcp` files, one or more per process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Carrier, Description, Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

NAME = "torch.distributed.checkpoint"
_METADATA = ".metadata"
_MOST_REMARKS = 8


def claims(candidate: Candidate) -> bool:
    """A folder with a pickled `.metadata` and files of pieces beside it."""
    if candidate.source is not None:
        return False
    from bnaudit.reading.byte_source import ByteSource

    try:
        with ByteSource.open(candidate.path / _METADATA) as source:
            pickled = source.head(1) == b"\x80"
        return pickled and any(candidate.path.glob("*.distcp"))
    except (OSError, UnreadableError):
        return False


def read(candidate: Candidate) -> Description:
    """Reads `.metadata` and, of the pieces, those of norm layers. Raises UnreadableError."""
    from bnaudit.reading.byte_source import ByteSource
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.checkpoints.tensor_groups import describe_dicts
    from bnaudit.reading.folders.distributed_metadata import spread_tensors
    from bnaudit.reading.folders.distributed_state import tensor_dicts
    from bnaudit.reading.folders.distributed_tensors import PieceFiles
    from bnaudit.reading.pickles.machine import run

    folder = candidate.path
    with ByteSource.open(folder / _METADATA, candidate.caps) as source, PieceFiles(folder, source.caps) as files:
        tally = Tally(source.caps, folder.name)
        with files.imports.told_in_errors():
            pickled = run(source, 0, files.meter, files.imports)
            dicts, has_optimizer = tensor_dicts(spread_tensors(pickled.root, tally), files)
        parts, gaps, remarks = describe_dicts(dicts, tally=tally)
        return Description(
            artifact=Artifact(
                path=str(folder),
                format=NAME,
                size=source.size + _size(folder),
                bytes_read=source.bytes_read + files.bytes_read,
            ),
            parts=tuple(part for _, part in parts) or (Part(name="", carrier=Carrier.STATE_DICT),),
            gaps=tuple(gaps),
            imports=files.imports.imports(),
            has_optimizer=has_optimizer,
            remarks=tuple(remarks[:_MOST_REMARKS]),
        )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of one model of the checkpoint. Raises UnreadableError."""
    from bnaudit.reading.byte_source import ByteSource
    from bnaudit.reading.checkpoints.linear_tensors import linear_tensors
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.checkpoints.tensor_groups import entries_of
    from bnaudit.reading.folders.distributed_metadata import spread_tensors
    from bnaudit.reading.folders.distributed_state import tensor_dicts
    from bnaudit.reading.folders.distributed_tensors import PieceFiles
    from bnaudit.reading.pickles.machine import run

    folder = candidate.path
    with ByteSource.open(folder / _METADATA, candidate.caps) as source, PieceFiles(folder, source.caps) as files:
        pickled = run(source, 0, files.meter, files.imports)
        dicts, _ = tensor_dicts(spread_tensors(pickled.root, Tally(source.caps, folder.name)), files)
        yield linear_tensors(entries_of(dicts, part.name), part)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.distcp"))


FORMAT = Format(name=NAME, suffixes=(), claims=claims, read=read, linear=linear)
