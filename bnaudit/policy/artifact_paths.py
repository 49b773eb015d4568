"""Which files below the settings' folder a pattern fits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import NamedTuple

from bnaudit.nearest_name import nearest
from bnaudit.policy.place import Place
from bnaudit.settings import is_at, is_at_its_place

_MOST_ENTRIES = 100_000
"""Of folders that are looked through for a file that fits."""
_MOST_NAMES = 2_000
"""That the nearest one is chosen from."""


def fits(path: Path, pattern: str, root: Path) -> bool:
    """Whether the path is the pattern's: by its name, as a shell pattern, or as what a folder holds."""
    return is_at(str(path), pattern, str(root)) or os.path.normpath(root / pattern) == str(path.absolute())


def concerns(path: Path, pattern: str, root: Path) -> bool:
    """Whether a pattern that says something of an artifact fits it: by its name, or by that of what it links to."""
    return fits(path, pattern, root) or is_at_its_place(str(path), pattern, str(root))


def is_pattern(text: str) -> bool:
    """Whether it may stand for several paths."""
    return any(character in text for character in "*?[")


def literal(pattern: str) -> str | None:
    """The one path that the pattern stands for, its special characters escaped; None: it may fit several."""
    path = re.sub(r"\[([*?[])\]", r"\1", pattern)
    return path if escape(path) == pattern else None


def start_of(pattern: str, root: Path) -> Path:
    """The folder, or file, that holds all that the pattern may fit."""
    if os.path.lexists(root / pattern):
        return root / pattern
    pieces = Path(pattern).parts
    fixed = next((position for position, piece in enumerate(pieces) if is_pattern(piece)), len(pieces))
    return root.joinpath(*pieces[:fixed])


def check_pattern(pattern: str, root: Path, place: Place) -> None:
    """Raise UsageError with the nearest file when the pattern fits none that is there.

    In a folder too large to look through it is taken to fit.
    """
    if not pattern.strip():
        place.refuse("this pattern is empty", 'write a path or a pattern, [files."models/*.pt"]')
    if exists(pattern, root):
        return
    start = start_of(pattern, root)
    names = _look(start if os.path.lexists(start) else root, pattern, root).names
    place.refuse("no file fits this pattern", nearest(pattern, names, "check the path"))


def exists(pattern: str, root: Path) -> bool:
    """Whether the pattern fits something that is there, or the folder is too large to tell."""
    start = start_of(pattern, root)
    if not os.path.lexists(start) or not is_pattern(pattern) or os.path.lexists(root / pattern):
        return os.path.lexists(start)
    found = _look(start, pattern, root)
    return found.fits or not found.complete


class _Looked(NamedTuple):
    fits: bool
    complete: bool
    names: list[str]


def _look(start: Path, pattern: str, root: Path) -> _Looked:
    names: list[str] = []
    for seen, path in enumerate(_walk(start), 1):
        if fits(path, pattern, root):
            return _Looked(True, False, [])
        if len(names) < _MOST_NAMES:
            names.append(os.path.relpath(path, root).replace(os.sep, "/"))
        if seen >= _MOST_ENTRIES:
            return _Looked(False, False, [])
    return _Looked(False, True, names)


def _walk(start: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(start):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here, name) for name in (*sorted(files), *folders))
