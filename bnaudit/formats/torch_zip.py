"""Checkpoints that torch.save writes since PyTorch 1.6: state dicts, nested ones, whole modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Description, Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

NAME = "PyTorch zip checkpoint"


def claims(candidate: Candidate) -> bool:
    """A zip archive with data.pkl and without the code, constants or graphs of another PyTorch format."""
    if candidate.path.suffix.lower() == ".distcp":
        return False  # several archives in a row, of which a zip directory shows only the last
    members = candidate.members
    folder, slash, _ = members[0].partition("/") if members else ("", "", "")
    prefix = folder + slash if slash else ""
    if f"{prefix}data.pkl" not in members or f"{prefix}constants.pkl" in members:
        return False
    others = (f"{prefix}code/", f"{prefix}models/", f"{prefix}.data/extern_modules", ".data/extern_modules")
    return not any(member.startswith(others) for member in members)


def read(candidate: Candidate) -> Description:
    """Reads the directory, data.pkl and the storages of norm layers. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.description import description
    from bnaudit.reading.checkpoints.torch_archive import read_archive
    from bnaudit.reading.pickles.imports import ImportLog

    if candidate.source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the file in it")
    imports = ImportLog()
    with imports.told_in_errors():
        pickled, tensors = read_archive(candidate.source, imports=imports)
        return description(pickled.root, imports.imports(), tensors, candidate.source, NAME)


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of the part. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.linear_layers import checkpoint_layers
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.checkpoints.torch_archive import read_archive

    source = candidate.source
    assert source is not None  # claimed by its content
    pickled, tensors = read_archive(source)
    yield checkpoint_layers(pickled.root, tensors, part, part.name, Tally(source.caps, source.name))


FORMAT = Format(
    name=NAME,
    suffixes=(".pt", ".pth", ".ckpt", ".bin", ".th", ".pth.tar"),
    claims=claims,
    read=read,
    linear=linear,
)
