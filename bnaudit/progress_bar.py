"""Where a long audit is, in one line on stderr: the artifact, the forward, the layer; of many, how many are done.

The audit only sets attributes; a thread of Rich's draws the line from them eight times a second. Nothing is shown for
work that takes less than half a second, nor when stderr is no terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
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
        self._files = FileCount()
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
        self._files.expect(total)
        if total > 1:
            self._begin()

    def finished(self, code: int) -> None:
        """Count an artifact that is done."""
        self._files.count(code)

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

        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        line.add_column(width=20)
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        files = self._files
        if self._forward or files.total < 2:
            what = " · ".join(printable(text) for text in (self._artifact, self._forward) if text)
            bar, count = Bar(total=self._total, completed=self._done, width=20), f"{self._done + 1}/{self._total}"
            line.add_row(Text(what), bar, Text(count), Text(printable(self._layer), style="dim"))
        else:
            bar = Bar(total=files.total, completed=files.done, width=20)
            line.add_row(Text(""), bar, Text(files.pace()), Text(printable(self._artifact), style="dim"))
        return line


class FileCount:
    """How many artifacts are done, how fast, and what came of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = 0
        self.total = 0
        self._failing = 0
        self._errors = 0
        self._clock = clock
        self._begin = clock()

    def expect(self, total: int) -> None:
        """That there are so many; time runs from the first call."""
        if not self.total:
            self._begin = self._clock()
        self.total = total

    def count(self, code: int) -> None:
        """One more, with the exit code that it alone gives."""
        self.done += 1
        self._failing += code in (1, 3)
        self._errors += code == 2

    def pace(self) -> str:
        """`120/800 · 41 a second · 0:17 left · 3 errors`."""
        parts = [f"{self.done}/{self.total}"]
        seconds = self._clock() - self._begin
        if self.done and seconds > 0:
            rate = self.done / seconds
            parts.append(f"{rate:.0f} a second" if rate >= 10 else f"{rate:.1f} a second" if rate >= 1 else "")
            parts.append(f"{_clock_text((self.total - self.done) / rate)} left")
        parts.append(f"{self._failing} not passing" if self._failing else "")
        parts.append(f"{self._errors} {'error' if self._errors == 1 else 'errors'}" if self._errors else "")
        return " · ".join(part for part in parts if part)


def _clock_text(seconds: float) -> str:
    """`0:17`, `2:05:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
