"""Where a long audit is, in one line on stderr: the artifact, the forward, the layer.

The audit only sets attributes; a thread of Rich's draws the line from them eight times a second. Nothing is shown for
work that takes less than half a second, nor when stderr is no terminal.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from bnaudit.printable import printable

if TYPE_CHECKING:
    from threading import Timer

    from rich.console import RenderableType
    from rich.live import Live

DELAY = 0.5
"""Seconds of work before the line appears."""


class ProgressBar:
    """A Progress that shows itself, as a context."""

    def __init__(self, delay: float = DELAY) -> None:
        self._delay = delay
        self._wanted = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._artifact = ""
        self._forward = ""
        self._layer = ""
        self._done = 0
        self._total = 1
        self._timer: Timer | None = None
        self._live: Live | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._live is not None:
            self._live.stop()

    def artifact(self, path: Path, position: int, total: int) -> None:
        """Say which artifact is being read, when there is more than one."""
        self._artifact = path.name if total > 1 else ""
        self._forward = self._layer = ""
        self._done, self._total = position, total
        if total > 1:
            self._begin()

    def forward(self, name: str, number: int, expected: int) -> None:
        """Say which forward begins."""
        self._forward, self._layer = name, ""
        self._done, self._total = number - 1, max(expected, number)
        self._begin()

    def layer(self, name: str) -> None:
        """Say which layer runs."""
        self._layer = name

    def _begin(self) -> None:
        if not self._wanted or self._timer is not None:
            return
        from threading import Timer

        self._timer = Timer(self._delay, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live = Live(console=console, get_renderable=self._line, refresh_per_second=8, transient=True)
        self._live.start(refresh=True)

    def _line(self) -> RenderableType:
        from rich.progress_bar import ProgressBar as Bar
        from rich.table import Table
        from rich.text import Text

        count = f"{self._done + 1}/{self._total}"
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        line.add_column(width=20)
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        what = " · ".join(printable(text) for text in (self._artifact, self._forward) if text)
        bar = Bar(total=self._total, completed=self._done, width=20)
        line.add_row(Text(what), bar, Text(count), Text(printable(self._layer), style="dim"))
        return line
