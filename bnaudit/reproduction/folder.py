"""The directory of a reproduction: written whole beside its place, then put there; nothing is ever overwritten."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bnaudit.errors import UsageError


def check_free(folder: Path) -> None:
    """Raises UsageError unless the directory can be made: it is not there or empty, and its parent is there."""
    where = f"-o {folder}"
    try:
        if os.path.lexists(folder) and not folder.is_dir():
            raise UsageError(f"{folder} is a file", where=where, remedy="name a new directory")
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(
                f"{folder} is not empty", where=where, remedy="name a new directory, nothing is overwritten"
            )
        if not folder.absolute().parent.is_dir():
            raise UsageError(f"there is no directory {folder.parent}", where=where, remedy="make it first")
    except OSError as error:
        raise UsageError(f"{folder} cannot be used, {error.strerror}", where=where, remedy="name another") from error


@contextmanager
def prepared(folder: Path) -> Iterator[Path]:
    """An empty directory beside `folder`, which is put in its place when all went well and is gone otherwise."""
    check_free(folder)
    final = folder.absolute()
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    except OSError as error:
        why = f"{folder} cannot be made, {error.strerror}"
        raise UsageError(why, where=f"-o {folder}", remedy="name another directory") from error
    try:
        yield made
        made.chmod(0o777 & ~_umask())
        if final.is_dir():
            final.rmdir()
        made.rename(final)
    except OSError as error:
        why = f"{folder} cannot be written, {error.strerror}"
        raise UsageError(why, where=f"-o {folder}", remedy="name another directory") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
