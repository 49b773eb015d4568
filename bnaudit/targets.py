"""From what was typed to what is audited: files, folders, patterns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.errors import BnauditError, NotAModelError, UnreadableError, UsageError
from bnaudit.formats import Candidate, formats, identify
from bnaudit.reading.byte_source import ByteSource
from bnaudit.results import Unaudited

_MOST_NAMES = 8
"""Under which one folder is searched."""


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


def expand(
    paths: Iterable[str | Path],
    caps: Caps,
    leaves_out: Callable[[Path], bool] = lambda path: False,
    about: Callable[[Path], object] = lambda path: None,
) -> Targets:
    """Files stay, patterns are matched, folders are searched for models at any depth.

    What is met, and not named, may be left out. A file with several names, through links, is one target under the
    first of them; where what holds for it (`about`) differs from name to name, it is a target under each.
    Raises UsageError for a path that is empty.
    """
    found: dict[Path, list[Path]] = {}
    missing: list[Unaudited] = []
    unnamed: set[Path] = set()
    others = 0
    suffixes = tuple(suffix for entry in formats() for suffix in entry.suffixes)

    def add(path: Path) -> None:
        names = found.setdefault(_real(path), [])
        if path not in names and not (names and about(path) in map(about, names)):
            names.append(path)

    for path in _matched(paths, missing, leaves_out):
        if _is_folder(path) and not _is_model(path, caps):
            for inner in _walk(path, caps, leaves_out, missing):
                says_model = _is_folder(inner) or inner.name.lower().endswith(suffixes)
                if says_model or _is_model(inner, caps):
                    add(inner)
                    unnamed.update(() if says_model else (inner,))
                else:
                    others += 1
        else:
            add(path)
            unnamed.discard(path)
    every = tuple(path for names in found.values() for path in names)
    return Targets(every, tuple(missing), others, frozenset(unnamed))


def _matched(
    paths: Iterable[str | Path], missing: list[Unaudited], leaves_out: Callable[[Path], bool]
) -> Iterator[Path]:
    for given in paths:
        path = Path(given)
        if not str(given).strip():  # an empty path is the working directory, which nobody meant
            raise UsageError("a path is empty", remedy="check the variable that it comes from")
        if os.path.lexists(path):
            yield path
            continue
        matches = _glob(str(given))
        if not matches:
            what = "matches no file" if _is_pattern(str(given)) else "does not exist"
            missing.append(Unaudited(path=str(given), why=f"{given} {what}: check the path", error=True))
        yield from (match for match in matches if not leaves_out(match))


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


def _walk(folder: Path, caps: Caps, leaves_out: Callable[[Path], bool], missing: list[Unaudited]) -> Iterator[Path]:
    """Every file, and every folder that is one model. Links to folders are followed, but not up and not round."""

    def unlisted(error: OSError) -> None:
        why = f"the folder {error.filename} cannot be listed, {error.strerror}: check its permissions"
        missing.append(Unaudited(path=str(error.filename), why=why, error=True))

    names: dict[Path, int] = {}
    for here, inner, files in os.walk(folder, followlinks=True, onerror=unlisted):
        inner[:] = sorted(name for name in inner if not leaves_out(Path(here, name)))
        whole = [name for name in inner if _is_model(Path(here, name), caps)]
        for name in whole:
            yield Path(here, name)
        # A folder that is one model is not searched again; version control and environments hold no models.
        inner[:] = [name for name in inner if name not in whole and not name.startswith(".")]
        inner[:] = [name for name in inner if _leads_on(Path(here, name), names)]
        yield from (path for name in sorted(files) if not leaves_out(path := Path(here, name)))


def _leads_on(folder: Path, names: dict[Path, int]) -> bool:
    """Whether to enter it: not through a link to where it stands, and under few names, since links may multiply."""
    real, holder = _real(folder), _real(folder.parent)
    names[real] = names.get(real, 0) + 1
    return real != holder and real not in holder.parents and names[real] <= _MOST_NAMES


def _is_model(path: Path, caps: Caps) -> bool:
    """Whether some format claims it; what cannot be opened is listed, so that it is not passed over in silence."""
    try:
        if _is_folder(path):
            identify(Candidate(path, None, caps))
            return True
        with ByteSource.open(path, caps) as source:
            entry = identify(Candidate(path, source))
            return entry.is_read or entry.suffixes != ()
    except NotAModelError:
        return False
    except UnreadableError:
        return _is_file(path)
    except BnauditError:
        return True
    except OSError:  # a folder that may not be entered: searching it, or reading what it lists, says so
        return not _is_folder(path)


def _is_folder(path: Path) -> bool:
    """Whether it is known to be one: Path.is_dir raises an error where permissions do not let it look."""
    return os.path.isdir(path)  # noqa: PTH112


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that may be listed and not entered
        return True
