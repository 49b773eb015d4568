"""External data of ONNX tensors: positioned reads from files that must lie beside the model.

The specification (onnx/docs/ExternalData.md) wants `location` relative to the model's folder. A location that is
absolute, climbs out with `..`, or leads out of the folder through a symbolic link is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from bnaudit.errors import MalformedError, UnreadableError, UnsafePathError
from bnaudit.reading.byte_source import ByteSource, OpenByteSource
from bnaudit.reading.onnx.protobuf_wire import WireReader

_MOST_OPEN = 32
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")


class External(NamedTuple):
    """Where a tensor's bytes are: a file, an offset in it, and a length if the model says one; texts, as stored."""

    location: str
    offset: str = "0"
    length: str | None = None

    @classmethod
    def parse(cls, wire: WireReader, entries: Sequence[tuple[int, int]]) -> External:
        """From the key and value pairs of `external_data`; `checksum` is not used."""
        pairs = dict(_pair(wire, start, stop) for start, stop in entries)
        return cls(pairs.get("location", ""), pairs.get("offset", "0"), pairs.get("length"))


class ExternalFiles:
    """The files beside one model, opened when they are first needed and closed on leaving the context."""

    def __init__(self, model: ByteSource) -> None:
        self._model = model
        self._open: dict[str, OpenByteSource] = {}
        self._closed_bytes = 0

    def __enter__(self) -> ExternalFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def bytes_read(self) -> int:
        """Bytes read so far from all of them."""
        return self._closed_bytes + sum(source.bytes_read for source in self._open.values())

    def read(self, external: External, length: int) -> bytes:
        """The `length` bytes of one tensor.

        Raises UnsafePathError, UnreadableError when the file is missing or is no regular file, MalformedError when
        the slice leaves it, has another length than the tensor needs, or stands at a place that is no number.
        """
        stated = length if external.length is None else _number(external.length)
        if stated != length:
            raise MalformedError(
                f"a tensor of {length} bytes whose external data has {stated}", where=external.location
            )
        return self._source(external.location).read_tensor(_number(external.offset), length)

    def size(self, location: str) -> int:
        """Bytes of the file, 0 when it cannot be read."""
        try:
            return self.path(location).stat().st_size
        except (OSError, UnreadableError):
            return 0

    def path(self, location: str) -> Path:
        """The file that a location names. Raises UnsafePathError when it is not in the model's folder."""
        parts = re.split(r"[/\\]", location)
        if not location or "\0" in location or _ABSOLUTE.match(location) or ".." in parts:
            raise UnsafePathError(
                f"external data in {location[:200]!r}", remedy="keep it in the model's folder, as ONNX requires"
            )
        path = self._model.path.parent / location
        try:
            real = path.resolve()
            homes = (self._model.path.parent.resolve(), self._model.path.resolve().parent)
            if not path.exists():
                raise UnreadableError(f"external data {location[:200]!r} is missing", remedy="put it beside the model")
        except (OSError, RuntimeError, ValueError) as error:
            raise UnreadableError(
                f"external data {location[:200]!r} leads nowhere", remedy="check its links"
            ) from error
        if not any(real.is_relative_to(home) for home in homes):
            raise UnsafePathError(
                f"external data {location[:200]!r} leads out of the model's folder",
                remedy="replace the link by the file",
            )
        return path

    def _source(self, location: str) -> ByteSource:
        source = self._open.get(location)
        if source is None:
            if len(self._open) >= _MOST_OPEN:
                self._close()
            source = self._open[location] = ByteSource.open(self.path(location), self._model.caps)
        return source

    def _close(self) -> None:
        self._closed_bytes = self.bytes_read
        for source in self._open.values():
            source.__exit__(None, None, None)
        self._open = {}


def _pair(wire: WireReader, start: int, stop: int) -> tuple[str, str]:
    key = value = ""
    for field, begin, end in wire.fields(start, stop):
        if field == 0x0A:
            key = wire.text(begin, end)
        elif field == 0x12:
            value = wire.text(begin, end)
    return key, value


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise MalformedError("external data at a place that is no number", where=text[:40])
    return int(text)
