"""From what was typed to what is audited: files, folders, patterns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.errors import BnauditError, NotAModelError, UnreadableError
from bnaudit.formats import Candidate, formats, identify
from bnaudit.reading.byte_source import ByteSource
from bnaudit.results import Unaudited


class Targets(NamedTuple):
    """What was found under the paths given."""

    paths: tuple[Path, ...]
    """Each file or model folder once, in the order given, folders sorted by name."""
    missing: tuple[Unaudited, ...]
    """What was named and is not there."""
    other_files: int
    """Files in folders that are no models."""
    unnamed: frozenset[Path] = frozenset()
    """Those of `paths` that were found in a folder and whose names do not say model either."""


def expand(paths: Iterable[str | Path], caps: Caps) -> Targets:
    """Files stay, patterns are matched, folders are searched for models at any depth."""
    found: dict[Path, Path] = {}
    missing: list[Unaudited] = []
    unnamed: set[Path] = set()
    others = 0
    suffixes = tuple(suffix for entry in formats() for suffix in entry.suffixes)
    for path in _matched(paths, missing):
        if path.is_dir() and not _is_model(path, caps):
            for inner in _walk(path, caps):
                says_model = inner.is_dir() or inner.name.lower().endswith(suffixes)
                if says_model or _is_model(inner, caps):
                    found.setdefault(_real(inner), inner)
                    unnamed.update(() if says_model else (inner,))
                else:
                    others += 1
        else:
            found.setdefault(_real(path), path)
            unnamed.discard(path)
    return Targets(tuple(found.values()), tuple(missing), others, frozenset(unnamed))


def _matched(paths: Iterable[str | Path], missing: list[Unaudited]) -> Iterator[Path]:
    for given in paths:
        path = Path(given)
        if os.path.lexists(path):
            yield path
            continue
        matches = _glob(str(given))
        if not matches:
            what = "matches no file" if _is_pattern(str(given)) else "does not exist"
            missing.append(Unaudited(path=str(given), why=f"{given} {what}: check the path", error=True))
        yield from matches


def _glob(pattern: str) -> list[Path]:
    if not _is_pattern(pattern):
        return []
    path = Path(pattern)
    root = Path(path.anchor)
    return sorted(root.glob(str(path.relative_to(root))))


def _is_pattern(text: str) -> bool:
    return any(character in text for character in "*?[")


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links: reading it will say so
        return path.absolute()


def _walk(folder: Path, caps: Caps) -> Iterator[Path]:
    """Every file, and every folder that is one model."""
    for here, inner, files in os.walk(folder):
        whole = [name for name in sorted(inner) if _is_model(Path(here, name), caps)]
        for name in whole:
            yield Path(here, name)
        # A folder that is one model is not searched again; version control and environments hold no models.
        inner[:] = sorted(name for name in inner if name not in whole and not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files))


def _is_model(path: Path, caps: Caps) -> bool:
    """Whether some format claims it; what cannot be opened is listed, so that it is not passed over in silence."""
    try:
        if path.is_dir():
            identify(Candidate(path, None, caps))
            return True
        with ByteSource.open(path, caps) as source:
            entry = identify(Candidate(path, source))
            return entry.is_read or entry.suffixes != ()
    except NotAModelError:
        return False
    except UnreadableError:
        return path.is_file()
    except BnauditError:
        return True
