"""What in the settings or in a baseline fits nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from bnaudit.printable import printable
from bnaudit.results import Unmatched

_GONE = 12
"""Accepted findings that are gone and are named: of a folder that was moved there are thousands."""


def unmatched_lines(console: Console, entries: Sequence[Unmatched]) -> None:
    """Print what is mistyped, all of it, and of accepted findings that are gone the first."""
    left: list[Unmatched] = []
    named = 0
    for entry in entries:
        if not entry.error and named >= _GONE:
            left.append(entry)
            continue
        named += not entry.error
        line = Text("error " if entry.error else "stale ", style="bold red" if entry.error else "yellow")
        console.print(line.append(f"{printable(entry.key)}: ", style="bold").append(printable(entry.why)))
    if left:
        sources = ", ".join(dict.fromkeys(printable(entry.key.partition(": ")[0]) for entry in left))
        console.print(Text(f"and {len(left):,} more in {sources}: a json report names all", style="dim"))
