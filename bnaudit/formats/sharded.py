"""Checkpoints in several files with an index (`model.safetensors.index.json`, `pytorch_model.bin.index.json`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Part
from bnaudit.errors import NotAuditedError, UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

NAME = "sharded checkpoint"
SUFFIX = ".index.json"
_READ = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")


def claims(candidate: Candidate) -> bool:
    """A JSON object with a weight_map."""
    if candidate.source is None or not candidate.head.lstrip().startswith(b"{"):
        return False
    return b'"weight_map"' in candidate.head or candidate.path.name.lower().endswith(SUFFIX)


def read(candidate: Candidate) -> Description:
    """Reads the headers of all shards and the tensors of norm layers.

    Raises UnreadableError when the index or every shard is unreadable, UnsafePathError when it leads elsewhere,
    NotAuditedError for shards of another framework.
    """
    from bnaudit.reading.folders.weight_files import WeightFiles
    from bnaudit.reading.folders.weight_index import read_index

    source = candidate.source
    if source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the index in it")
    index = read_index(source)
    others = [shard for shard in index.shards if not shard.endswith(_READ)]
    if others:
        raise NotAuditedError(
            f"a checkpoint in {others[0].rpartition('.')[2][:20]} files is not audited",
            where=source.name,
            remedy="save it as safetensors and give that index",
        )
    weights = WeightFiles(source.caps)
    with weights.imports.told_in_errors():
        weights.add_shards(candidate.path.parent, index.shards, index.files, "")
    kinds = sorted({shard.rpartition(".")[2] for shard in index.shards})
    return Description(
        artifact=Artifact(
            path=str(candidate.path),
            format=f"{NAME} ({len(index.shards)} {'/'.join(kinds)} files)",
            size=source.size + weights.size,
            bytes_read=source.bytes_read + weights.bytes_read,
        ),
        parts=tuple(weights.parts),
        gaps=tuple(weights.gaps),
        imports=weights.imports.imports(),
        has_optimizer=weights.has_optimizer,
    )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers in all shards. Raises UnreadableError."""
    from bnaudit.reading.folders.linear_files import shard_layers
    from bnaudit.reading.folders.weight_index import read_index

    assert candidate.source is not None  # claimed by its content
    index = read_index(candidate.source)
    with shard_layers(candidate.path.parent, index.shards, index.files, part, candidate.caps) as layers:
        yield layers


FORMAT = Format(name=NAME, suffixes=(SUFFIX,), claims=claims, read=read, linear=linear)
