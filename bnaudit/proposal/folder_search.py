"""Looks through a folder for models, data and Python files, within bounds that hold in a huge one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bnaudit.auditing import describe
from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.errors import BnauditError, NotAModelError, UnreadableError
from bnaudit.formats import Candidate, formats, identify

MOST_ENTRIES = 50_000
"""Files and folders that are looked at."""
MOST_MODELS = 100
"""Models that are read."""
MOST_SOURCES = 500
"""Python files that are parsed."""
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env"})
_ARRAYS = (".npz", ".npy")


class Model(NamedTuple):
    """A model that was read."""

    path: Path
    description: Description


class Refused(NamedTuple):
    """A file that looks like a model and was not read, and why."""

    path: Path
    why: str


class Findings(NamedTuple):
    """What the folder holds, each sorted by path."""

    folder: Path
    models: tuple[Model, ...]
    refused: tuple[Refused, ...]
    unread: tuple[Path, ...]
    """Models beyond the bound."""
    arrays: tuple[Path, ...]
    """Files that hold no model and may be inputs."""
    sources: tuple[Path, ...]
    """Python files."""
    complete: bool
    """False: the folder is larger than what was looked at."""


def search(folder: Path) -> Findings:
    """What stands in the folder and below; hidden folders and environments are left out."""
    found, seen = _Found(), 0
    for seen, path in enumerate(_walk(folder), 1):
        if seen > MOST_ENTRIES:
            break
        found.add(path)
    return found.in_folder(folder, complete=seen <= MOST_ENTRIES)


class _Found:
    """Sorts paths by what they hold."""

    def __init__(self) -> None:
        self._suffixes = tuple(suffix for entry in formats() for suffix in entry.suffixes)
        self._models: list[Model] = []
        self._refused: list[Refused] = []
        self._unread: list[Path] = []
        self._arrays: list[Path] = []
        self._sources: list[Path] = []

    def add(self, path: Path) -> None:
        name = path.name.lower()
        if name.endswith(".py"):
            self._sources += [path] if len(self._sources) < MOST_SOURCES else []
        elif not (name.endswith((*self._suffixes, *_ARRAYS)) or path.is_dir()):
            return
        elif len(self._models) + len(self._refused) >= MOST_MODELS:
            self._unread.append(path)
        else:
            self._look_into(path)

    def _look_into(self, path: Path) -> None:
        found = _read(path)
        may_be_data = path.name.lower().endswith(_ARRAYS)
        if isinstance(found, Refused):
            self._refused.append(found)
        elif isinstance(found, Model) and not (may_be_data and not any(found.description.layers)):
            self._models.append(found)
        elif may_be_data:
            self._arrays.append(path)

    def in_folder(self, folder: Path, *, complete: bool) -> Findings:
        return Findings(
            folder=folder,
            models=tuple(self._models),
            refused=tuple(self._refused),
            unread=tuple(self._unread),
            arrays=tuple(self._arrays),
            sources=tuple(self._sources),
            complete=complete,
        )


def _read(path: Path) -> Model | Refused | None:
    try:
        return Model(path, describe(path))
    except NotAModelError:
        return None
    except BnauditError as error:
        return Refused(path, str(error))


def _walk(folder: Path) -> Iterator[Path]:
    """Files, and folders that are one model, level by level from the top of each folder."""
    for here, inner, files in os.walk(folder):
        kept = sorted(name for name in inner if not name.startswith(".") and name not in _SKIPPED)
        whole = [name for name in kept if _is_model(Path(here, name))]
        inner[:] = [name for name in kept if name not in whole and not Path(here, name, "pyvenv.cfg").exists()]
        yield from (Path(here, name) for name in (*sorted(files), *whole))


def _is_model(folder: Path) -> bool:
    try:
        identify(Candidate(folder, None, Caps()))
    except UnreadableError:
        return False
    return True
