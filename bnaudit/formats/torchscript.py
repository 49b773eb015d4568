"""TorchScript archives: torch.jit.save, scripted, traced or frozen, and PyTorch Mobile's .ptl files with code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Part
from bnaudit.errors import NotAuditedError, UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

_OTHERS = (".data/extern_modules", "models/", "serialized_exported_program.json", "archive_format")
"""Records of torch.package and torch.export, whose archives may hold the same names."""


def _prefix(members: tuple[str, ...]) -> str:
    """The top folder: that of the first member, as torch takes it."""
    folder, slash, _ = members[0].partition("/") if members else ("", "", "")
    return folder + slash if slash else ""


def _is_legacy(members: tuple[str, ...]) -> bool:
    """PyTorch 1.0 to 1.3."""
    prefix = _prefix(members)
    return f"{prefix}model.json" in members and any(name.startswith(f"{prefix}code/") for name in members)


def claims(candidate: Candidate) -> bool:
    """A zip archive with `data.pkl` beside `constants.pkl` or `code/`, and none of another PyTorch format."""
    members = candidate.members
    if not members:
        return False
    prefix = _prefix(members)
    if any(name.startswith(tuple(prefix + other for other in _OTHERS)) for name in members):
        return False
    scripted = f"{prefix}constants.pkl" in members or any(name.startswith(f"{prefix}code/") for name in members)
    return (scripted and f"{prefix}data.pkl" in members) or _is_legacy(members)


def read(candidate: Candidate) -> Description:
    """Reads the object tree and the code, and the tensors of norm layers; runs neither.

    Raises NotAuditedError for the layout before PyTorch 1.4, UnreadableError for a broken archive.
    """
    from bnaudit.reading.torchscript.archive import ScriptArchive
    from bnaudit.reading.torchscript.part import script_part

    source = candidate.source
    if source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the file in it")
    if _is_legacy(candidate.members):
        raise NotAuditedError(
            "TorchScript from before PyTorch 1.4 (model.json) is not audited",
            where=candidate.path.name,
            remedy="load it with torch.jit.load, save it again with torch.jit.save and give that",
        )
    archive = ScriptArchive(source)
    part = script_part(archive, source)
    return Description(
        artifact=Artifact(path=str(candidate.path), format=FORMAT.name, size=source.size, bytes_read=source.bytes_read),
        parts=(part,),
        gaps=tuple(archive.library.gaps),
        imports=archive.imports.imports(),
    )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers that the code calls. Raises UnreadableError."""
    from bnaudit.reading.torchscript.linear_calls import linear_calls

    assert candidate.source is not None  # claimed by its content
    yield linear_calls(candidate.source, part)


FORMAT = Format(
    name="TorchScript",
    suffixes=(".pt", ".pth", ".jit", ".ts", ".ptl", ".torchscript"),
    claims=claims,
    read=read,
    linear=linear,
)
