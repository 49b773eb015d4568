"""One file per report format. A plugin is a module with a `RENDERER`:

    RENDERER = Renderer(name="json", suffix=".json", render=render)

`render(report, view)` returns the whole report as text. The report is a value; nothing is computed here but
words and layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bnaudit.errors import UsageError
from bnaudit.plugins import load, names
from bnaudit.results import Audit, Report, Unaudited


class View(NamedTuple):
    """How a person looks at it."""

    width: int = 80
    color: bool = False
    in_full: bool = False
    """Every layer in its own row, and notes with their whole text."""
    show_accepted: bool = False
    """List the accepted findings too, not only their number."""


class Renderer(NamedTuple):
    """The contract of a report plugin."""

    name: str
    suffix: str
    render: Callable[[Report, View], str]
    stream: Callable[[Audit | Unaudited], str] | None = None
    """The text for one artifact, where a report is nothing but these texts; they can be written one by one."""
    prepare: Callable[[], None] | None = None
    """Raises UsageError when what it is made with is not installed: asked before anything is audited."""


def renderer(name: str) -> Renderer:
    """The report format of this name. Raises UsageError when there is none."""
    if name not in names(__name__):
        raise UsageError(f"no report format is called {name!r}", remedy=f"there are {', '.join(names(__name__))}")
    found: Renderer = load(__name__, name).RENDERER
    return found
