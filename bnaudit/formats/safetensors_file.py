"""safetensors files: a JSON header and the tensors' bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

NAME = "safetensors"
SUFFIX = ".safetensors"


def claims(candidate: Candidate) -> bool:
    """A plausible header length, then a JSON object that begins with a name; an empty object only by its suffix."""
    head = candidate.head
    if len(head) < 10 or head[8:9] != b"{" or head[5:8] != b"\0\0\0":
        return False
    return head[9:].lstrip()[:1] == b'"' or candidate.path.name.lower().endswith(SUFFIX)


def read(candidate: Candidate) -> Description:
    """Reads the header and the bytes of norm layers. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.state_dict import describe_state_dict
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.safetensors_header import SafetensorsFile

    source = candidate.source
    if source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the file in it")
    file = SafetensorsFile(source)
    part, gaps = describe_state_dict("", list(file.tensors.items()), None, Tally(source.caps, source.name))
    return Description(
        artifact=Artifact(
            path=str(source.path),
            format=NAME,
            size=source.size,
            bytes_read=source.bytes_read,
            producer=file.producer,
        ),
        parts=(part,),
        gaps=gaps,
    )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of the file. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.linear_tensors import linear_tensors
    from bnaudit.reading.safetensors_header import SafetensorsFile

    assert candidate.source is not None  # claimed by its content
    yield linear_tensors(list(SafetensorsFile(candidate.source).tensors.items()), part)


FORMAT = Format(name=NAME, suffixes=(SUFFIX,), claims=claims, read=read, linear=linear)
