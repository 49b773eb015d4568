"""Where text goes: stdout as it is, whatever its encoding can show, and how wide and colourful it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bnaudit.errors import UsageError
from bnaudit.reports import View

_NARROWEST, _WIDEST = 40, 1000
"""Columns that lines are broken for; tables are padded to the width, so that a huge one costs memory."""


def write(text: str) -> None:
    """Text to stdout; characters that its encoding lacks are escaped, and a reader that has gone away is no error.

    Raises UsageError when there is no room, or the like.
    """
    stream = sys.stdout
    try:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        stream.write(text)
        stream.flush()
    except OSError as error:
        # The interpreter flushes stdout once more at exit; there is nobody left to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            why = str(error.strerror or error)
            raise UsageError("stdout cannot be written", where=why, remedy="write to another place") from error


def check_writable(path: Path, where: str, name: str) -> None:
    """Raises UsageError for a folder, in which `name` would be a file, and for a path where no file can be."""
    try:
        path.resolve()
        if path.is_dir():
            raise UsageError(f"{path} is a folder", where=where, remedy=f"name a file, {path / name}")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}", where=where, remedy="make it first")
        path.exists()
    except (OSError, RuntimeError) as error:  # too long a name, or a loop of links
        why = error.strerror if isinstance(error, OSError) else "its links go round in a circle"
        raise UsageError(f"there can be no such file, {why}", where=where, remedy="give another path") from error


def view(*, in_full: bool = False, show_accepted: bool = False) -> View:
    """How the user looks at stdout; `NO_COLOR`, `FORCE_COLOR` and `COLUMNS` are obeyed."""
    color = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    color = (color or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")
    return View(width=_width(), color=color, in_full=in_full, show_accepted=show_accepted)


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return min(max(int(columns[:9]), _NARROWEST), _WIDEST)
    try:
        return min(max(os.get_terminal_size().columns, _NARROWEST), _WIDEST)
    except OSError:
        return 80
