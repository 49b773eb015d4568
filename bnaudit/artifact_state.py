"""What a result was made from, so that a later run can tell whether it still holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from bnaudit.artifact_objects import HoldsFor
from bnaudit.settings import Settings


def state(path: Path, settings: str) -> HoldsFor | None:
    """The state of a file or model folder and the digest of the settings; None when it cannot be looked at."""
    try:
        found = path.stat()
        folder = _digest(_entries(path, deep=True)) if path.is_dir() else ""
    except OSError:
        return None
    size = 0 if folder else found.st_size
    return HoldsFor(size=size, mtime_ns=0 if folder else found.st_mtime_ns, folder=folder, settings=settings)


def neighbours(path: Path) -> str:
    """Digest of the folder that a file stands in, for one that refers to others: an index and its shards."""
    try:
        return _digest(_entries(path.absolute().parent, deep=False))
    except OSError:
        return ""


def settings_digest(settings: Settings) -> str:
    """Digest of all settings and of the files that they name: the model's code, the inputs, libraries.

    What a named file imports is not in it.
    """
    run = settings.run
    named = [text for text in (run.model, run.inputs, *run.custom_ops) if isinstance(text, (str, os.PathLike))]
    return _digest((repr(settings), *map(_named_file, named)))


def _named_file(text: str | os.PathLike[str]) -> str:
    """Size and time of the file in `inputs.npz` or `file.py:callable`; "" for a module's name."""
    given = os.fspath(text)
    for name in (given, given.rpartition(":")[0]):
        try:
            found = Path(name).stat() if name else None
        except (OSError, ValueError):
            continue
        if found is not None:
            return f"{found.st_size} {found.st_mtime_ns}"
    return ""


def _entries(folder: Path, deep: bool) -> Iterator[str]:
    """Name, size and time of every file, in a fixed order; reports that stand among them change and say nothing."""
    for here, inner, names in os.walk(folder):
        inner[:] = sorted(inner) if deep else ()
        for name in sorted(names):
            if not name.endswith(".jsonl"):
                found = Path(here, name).stat()
                yield f"{os.path.relpath(here, folder)}\0{name}\0{found.st_size}\0{found.st_mtime_ns}"


def _digest(texts: Iterator[str] | tuple[str, ...]) -> str:
    total = blake2b(digest_size=16)
    for text in texts:
        total.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return total.hexdigest()
