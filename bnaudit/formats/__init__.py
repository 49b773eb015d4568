"""One file per model format. A plugin is a module with a `FORMAT`:

    FORMAT = Format(name="PyTorch zip checkpoint", suffixes=(".pt", ".pth"), claims=claims, read=read, linear=linear)

`claims(candidate)` decides by content and is cheap; heavy imports stand inside `read`. `read(candidate)`
returns a Description, imports no framework and executes nothing; it raises UnreadableError or NotAuditedError.
A directory is offered too (`candidate.source` is None then).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.comparison import LinearLayer
from bnaudit.description import Description, Part
from bnaudit.errors import NotAModelError, UnreadableError
from bnaudit.plugins import load, names
from bnaudit.reading.byte_source import ByteSource


class Candidate:
    """A path that may be a model: the source (None for a directory), its first bytes, its zip directory if any."""

    __slots__ = ("_members", "caps", "head", "path", "source")

    def __init__(self, path: Path, source: ByteSource | None, caps: Caps | None = None) -> None:
        self.path = path
        self.source = source
        self.caps = source.caps if source is not None else caps or Caps()
        self.head = source.head() if source is not None else b""
        self._members: tuple[str, ...] | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the zip members; empty when the content is no zip file that PyTorch would open."""
        if self._members is None:
            if self.source is not None and self.head.startswith(b"PK\x03\x04"):
                from bnaudit.reading.zip_directory import ZipDirectory

                self._members = tuple(ZipDirectory(self.source).names)
            else:
                self._members = ()
        return self._members


LinearReader = Callable[[Candidate, Part], AbstractContextManager[Sequence[LinearLayer]]]


class Format(NamedTuple):
    """The contract of a format plugin."""

    name: str
    """For a person, in the report's first line."""
    suffixes: tuple[str, ...]
    """Usual file name endings, lower case: they break ties and say which files of a directory are models."""
    claims: Callable[[Candidate], bool]
    read: Callable[[Candidate], Description]
    is_read: bool = True
    """False: it only says what the file is (`read` raises); asked when no format that is read claims the file."""
    linear: LinearReader | None = None
    """The convolutions and linear layers of one part that `read` described, in the artifact's order, while the context
    is open; `load` of a weight reads it. Nothing else is read. Raises UnreadableError. None: the format cannot."""


def formats() -> Iterator[Format]:
    """All formats, in the order of their file names."""
    for name in names(__name__):
        plugin: Format = load(__name__, name).FORMAT
        yield plugin


def identify(candidate: Candidate) -> Format:
    """The one format whose content this is; the suffix breaks a tie.

    Raises NotAModelError when none claims it, UnreadableError when several do and the suffix does not decide.
    """
    every = list(formats())
    claiming = [entry for entry in every if entry.is_read and entry.claims(candidate)]
    if len(claiming) > 1:
        by_suffix = [entry for entry in claiming if candidate.path.name.lower().endswith(entry.suffixes)]
        claiming = by_suffix or claiming
    if not claiming:
        claiming = [entry for entry in every if not entry.is_read and entry.claims(candidate)][:1]
    if not claiming:
        raise NotAModelError(
            "no model format that bnaudit knows", where=candidate.path.name, remedy="give a checkpoint or a graph"
        )
    if len(claiming) > 1:
        both = " and ".join(entry.name for entry in claiming)
        raise UnreadableError(f"the content is {both} at once", remedy="do not trust this file")
    return claiming[0]
