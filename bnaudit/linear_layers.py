"""Opens an artifact for its convolutions and linear layers: names and shapes at once, weights one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bnaudit.caps import Caps
from bnaudit.comparison import LinearLayer
from bnaudit.description import Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, identify
from bnaudit.reading.byte_source import ByteSource
from bnaudit.records import replace

_NO_LIMIT = 1 << 62
"""Weights are let go one by one: what all of them take together limits nothing."""


@contextmanager
def linear_layers(path: Path, part: Part, caps: Caps) -> Iterator[Sequence[LinearLayer]]:
    """The convolutions and linear layers of `part`, which was read from `path`, in the artifact's order.

    While the context is open, `load` of a weight reads exactly that weight; nothing is executed and nothing kept.
    Raises UnreadableError (a subclass) when the file cannot be read again, or holds no weights that are read.
    """
    caps = replace(caps, tensor_bytes=_NO_LIMIT)
    with ExitStack() as opened:
        if os.path.isdir(path):  # noqa: PTH112 - in a folder that may not be entered, Path.is_dir raises
            candidate = Candidate(path, None, caps)
        else:
            candidate = Candidate(path, opened.enter_context(ByteSource.open(path, caps)))
        found = identify(candidate)
        if found.linear is None:
            raise UnreadableError(f"the convolutions of a {found.name} are not read", where=path.name)
        yield opened.enter_context(found.linear(candidate, part))
