"""ONNX models, by a walk of the wire format that reads no weight it does not need. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Description, Part
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer
    from bnaudit.reading.byte_source import ByteSource


def claims(candidate: Candidate) -> bool:
    """A Protocol Buffers message that starts as a ModelProto does, with a graph in it."""
    source = candidate.source
    if source is None or candidate.head[:1] not in _FIRST_BYTES:
        return False
    from bnaudit.reading.onnx.model import looks_like_model

    return looks_like_model(source)


def read(candidate: Candidate) -> Description:
    """Describe the graph. Raises UnreadableError when it is corrupt or beyond the caps."""
    from bnaudit.reading.onnx.describe import describe

    source: ByteSource | None = candidate.source
    assert source is not None
    return describe(source, str(candidate.path))


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of the graph. Raises UnreadableError."""
    from bnaudit.reading.onnx.external import ExternalFiles
    from bnaudit.reading.onnx.linear_nodes import linear_nodes

    assert candidate.source is not None  # claimed by its content
    with ExternalFiles(candidate.source) as files:
        yield linear_nodes(candidate.source, files)


_FIRST_BYTES = (b"\x08", b"\x12", b"\x1a", b"\x22", b"\x28", b"\x32", b"\x3a", b"\x42")
"""Keys of ModelProto's first eight fields."""

FORMAT = Format(name="ONNX", suffixes=(".onnx",), claims=claims, read=read, linear=linear)
