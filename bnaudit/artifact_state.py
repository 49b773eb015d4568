"""What a result was made from, so that a later run can tell whether it still holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from bnaudit.artifact_objects import HoldsFor
from bnaudit.settings import Settings


def state(path: Path, settings: str) -> HoldsFor | None:
    """The state of a file or model folder and the digest of the settings; None when it cannot be looked at."""
    try:
        found = path.stat()
        folder = _digest(_entries(path)) if path.is_dir() else ""
    except OSError:
        return None
    size = 0 if folder else found.st_size
    return HoldsFor(size=size, mtime_ns=0 if folder else found.st_mtime_ns, folder=folder, settings=settings)


def neighbours(path: Path) -> str:
    """Digest of the folder that a file stands in, for one that refers to others: an index and its shards.

    They may stand in a folder of their own in it, as the weights of a graph do.
    """
    try:
        return _digest(_entries(path.absolute().parent, depth=1))
    except OSError:
        return ""


def settings_digest(settings: Settings) -> str:
    """Digest of all settings and of the files that they name: the model's code, the inputs, libraries.

    Of code, the Python files beside it count too; what it imports from elsewhere does not.
    """
    run = settings.run
    named = [text for text in (run.model, run.inputs, *run.custom_ops) if isinstance(text, (str, os.PathLike))]
    return _digest((repr(settings), *map(_named_file, named)))


def _named_file(text: str | os.PathLike[str]) -> str:
    """Size and time of the file in `inputs.npz`, `file.py:callable` or `package.module:callable`; "" without one."""
    given = os.fspath(text)
    for path in (Path(given), *_code(given.rpartition(":")[0])):
        try:
            found = path.stat()
            beside = "".join(map(_of_code, sorted(path.parent.glob("*.py")))) if path.suffix == ".py" else ""
        except (OSError, ValueError):
            continue
        return f"{found.st_size} {found.st_mtime_ns}{beside}"
    return ""


def _code(place: str) -> Iterator[Path]:
    """Where the file of a callable may be: its path, or that of the module below what Python searches."""
    if place.endswith(".py"):
        yield Path(place).expanduser()
    elif place:
        module = place.replace(".", "/")
        for folder in (os.curdir, *sys.path):
            yield from (Path(folder, f"{module}.py"), Path(folder, module, "__init__.py"))


def _of_code(path: Path) -> str:
    found = path.stat()
    return f"\0{path.name} {found.st_size} {found.st_mtime_ns}"


def _entries(folder: Path, depth: int | None = None) -> Iterator[str]:
    """Name, size and time of every file, in a fixed order; reports that stand among them change and say nothing."""
    for here, inner, names in os.walk(folder):
        deeper = depth is None or len(Path(os.path.relpath(here, folder)).parts) < depth
        inner[:] = sorted(inner) if deeper else ()
        for name in sorted(names):
            if not name.endswith(".jsonl"):
                found = Path(here, name).stat()
                yield f"{os.path.relpath(here, folder)}\0{name}\0{found.st_size}\0{found.st_mtime_ns}"


def _digest(texts: Iterable[str]) -> str:
    total = blake2b(digest_size=16)
    for text in texts:
        total.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return total.hexdigest()
