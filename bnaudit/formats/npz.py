"""NumPy .npz files: a zip archive with one .npy array per tensor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Gap, Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer
    from bnaudit.reading.tensors.tensor_refs import TensorRef
    from bnaudit.reading.zip_directory import ZipDirectory

NAME = "NumPy .npz"
_LONGEST_PACKED = 1 << 20
"""In a compressed file, longer arrays (above 262,144 float32 channels) are not unpacked to see what they are."""

_OBJECTS = "an array of Python objects was not opened: unpickling it would run code"


def claims(candidate: Candidate) -> bool:
    """A zip archive of nothing but .npy files."""
    return bool(candidate.members) and all(member.endswith(".npy") for member in candidate.members)


def read(candidate: Candidate) -> Description:
    """Reads the header of every array and the values of norm layers. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.state_dict import describe_state_dict
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.tensors.npy_header import NpyTensor
    from bnaudit.reading.zip_directory import ZipDirectory

    source = candidate.source
    if source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the file in it")
    entries = _entries(ZipDirectory(source), source.size)
    part, gaps = describe_state_dict("", entries, None, Tally(source.caps, source.name))
    objects = [Gap(where=name, why=_OBJECTS) for name, ref in entries if isinstance(ref, NpyTensor) and ref.is_object]
    return Description(
        artifact=Artifact(path=str(source.path), format=NAME, size=source.size, bytes_read=source.bytes_read),
        parts=(part,),
        gaps=(*gaps, *objects),
    )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers among the arrays. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.linear_tensors import linear_tensors
    from bnaudit.reading.zip_directory import ZipDirectory

    assert candidate.source is not None  # claimed by its content
    archive = ZipDirectory(candidate.source)
    yield linear_tensors(_entries(archive, sum(map(archive.size, archive.names))), part)


def _entries(archive: ZipDirectory, size: int) -> list[tuple[str, TensorRef]]:
    """The arrays of a file of so many bytes by name."""
    longest = _LONGEST_PACKED if sum(map(archive.size, archive.names)) > size else size
    return [(name.removesuffix(".npy"), _tensor(archive, name, longest)) for name in archive.names]


def _tensor(archive: ZipDirectory, name: str, longest: int) -> TensorRef:
    from bnaudit.reading.tensors.npy_header import NpyTensor, UnopenedTensor

    return UnopenedTensor() if archive.size(name) > longest else NpyTensor(archive.open(name))


FORMAT = Format(name=NAME, suffixes=(".npz",), claims=claims, read=read, linear=linear)
