"""What Rich prints, as text."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console


def console_text(show: Callable[[Console], None], width: int, color: bool) -> str:
    """What `show` prints on a console of this width: plain text, with ANSI styles when it has colour."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},  # width and colour are given; of COLUMNS=² Rich would make an error
    )
    show(console)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
