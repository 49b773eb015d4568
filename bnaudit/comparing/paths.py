"""What is typed to compare: a file or model folder, or one part of a file, `checkpoint.pt#state_dict_ema`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from bnaudit.description import Description, Part
from bnaudit.errors import UsageError
from bnaudit.nearest_name import nearest


class Located(NamedTuple):
    """A path, and the part of it that was asked for."""

    path: Path
    part: str | None = None
    """None: none was named, the file is what is compared."""


def located(text: str | os.PathLike[str]) -> Located:
    """The path and the part. A file whose own name holds a # is found first.

    Raises UsageError for a path that is empty. A path that does not exist is returned as it is: reading it says so.
    """
    written = os.fspath(text)
    if not written.strip():
        raise UsageError("a path is empty", remedy="check the variable that it comes from")
    position = len(written)
    while position > 0:
        if os.path.lexists(written[:position]):
            return Located(Path(written[:position]), written[position + 1 :] if position < len(written) else None)
        position = written.rfind("#", 0, position)
    return Located(Path(written))


def named_part(description: Description, name: str) -> Part:
    """The part of this name. Raises UsageError when there is none, with those there are."""
    for part in description.parts:
        if part.name == name:
            return part
    path = Path(description.artifact.path).name
    names = [part.name for part in description.parts if part.name]
    if not names:
        raise UsageError(f"{path} has no parts with names", where=f"#{name}", remedy=f"give {path} without #")
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    close = nearest(name, names, "")
    raise UsageError(f"{path} has no part {name!r}", remedy=f"{close + ' ' if close else ''}there are {listed}")
