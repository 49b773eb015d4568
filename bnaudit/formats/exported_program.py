"""torch.export programs (.pt2), in the layout of torch 2.8 and later and in the flat one of torch 2.1 to 2.7."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Part
from bnaudit.formats import Candidate, Format
from bnaudit.reading.byte_source import ByteSource

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer


def _programs(candidate: Candidate) -> list[str]:
    """The members that are programs: all of the folder, or the flat one."""
    nested = [
        name for name in candidate.members if name.partition("/")[2].startswith("models/") and name.endswith(".json")
    ]
    return nested or [name for name in candidate.members if name == "serialized_exported_program.json"]


def claims(candidate: Candidate) -> bool:
    """A zip archive with `models/*.json` in its top folder, or with `serialized_exported_program.json`."""
    return bool(_programs(candidate))


def read(candidate: Candidate) -> Description:
    """The programs of the archive, one part each; one alone is the unnamed part.

    Raises MalformedError when the archive or a graph is broken, CapExceededError above the caps.
    """
    from bnaudit.reading.exported.archive import ExportedArchive
    from bnaudit.reading.exported.program import describe_program

    assert candidate.source is not None  # claimed by its content
    source: ByteSource = candidate.source
    archive, members = ExportedArchive(source), _programs(candidate)
    parts, gaps, version = [], [], None
    for entry in archive.programs(members):
        name = entry.name if len(members) > 1 else ""
        part, unread = describe_program(name, entry.program, entry.refs, source.caps)
        parts.append(part)
        gaps += unread
        version = version or entry.program.get("torch_version")
    return Description(
        artifact=Artifact(
            path=str(candidate.path),
            format=FORMAT.name,
            size=source.size,
            bytes_read=source.bytes_read,
            producer=f"pytorch {version}" if isinstance(version, str) else None,
        ),
        parts=tuple(parts),
        gaps=(*archive.gaps, *gaps),
        imports=archive.pickles.imports.imports(),
    )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of the program that the part is. Raises UnreadableError."""
    from bnaudit.reading.exported.archive import ExportedArchive
    from bnaudit.reading.exported.linear_calls import linear_calls

    assert candidate.source is not None  # claimed by its content
    source, members = candidate.source, _programs(candidate)
    for entry in ExportedArchive(source).programs(members):
        if len(members) == 1 or entry.name == part.name:
            yield linear_calls(entry.program, entry.refs, part, source.caps)
            return
    yield []


FORMAT = Format(name="torch.export program", suffixes=(".pt2",), claims=claims, read=read, linear=linear)
