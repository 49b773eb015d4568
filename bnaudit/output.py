"""Where text goes: stdout as it is, whatever its encoding can show, and how wide and colourful it is."""

from __future__ import annotations

import os
import sys

from bnaudit.reports import View


def write(text: str) -> None:
    """Text to stdout; characters that its encoding lacks are escaped, and a reader that has gone away is no error."""
    stream = sys.stdout
    try:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit; there is nobody left to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def view(*, in_full: bool = False, show_accepted: bool = False) -> View:
    """How the user looks at stdout; `NO_COLOR`, `FORCE_COLOR` and `COLUMNS` are obeyed."""
    color = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    color = (color or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")
    return View(width=_width(), color=color, in_full=in_full, show_accepted=show_accepted)


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return max(int(columns), 40)
    try:
        return max(os.get_terminal_size().columns, 40)
    except OSError:
        return 80
