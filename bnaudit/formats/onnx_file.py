"""ONNX models, by a walk of the wire format that reads no weight it does not need. Nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.description import Description
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
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


_FIRST_BYTES = (b"\x08", b"\x12", b"\x1a", b"\x22", b"\x28", b"\x32", b"\x3a", b"\x42")
"""Keys of ModelProto's first eight fields."""

FORMAT = Format(name="ONNX", suffixes=(".onnx",), claims=claims, read=read)
