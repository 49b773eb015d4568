"""`bnaudit inspect` behind its options: audit with a progress bar, write the report, give the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from bnaudit.auditing import audit
from bnaudit.output import view, write
from bnaudit.printable import printable
from bnaudit.reports import renderer
from bnaudit.settings import Settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def inspect(paths: Sequence[str], format: str, settings: Settings) -> int:
    """Audit the paths and write the report in this format to stdout. Returns the exit code.

    Raises UsageError for an unknown format or rule.
    """
    chosen = renderer(format)
    with _ProgressBar() as bar:
        report = audit(paths, settings, bar)
    write(chosen.render(report, view(in_full=settings.all_layers, fail_on=settings.fail_on)))
    return report.exit_code(settings.fail_on)


class _ProgressBar:
    """A bar on stderr, when that is a terminal and there is more than one artifact."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> _ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def forward(self, name: str, number: int, expected: int) -> None:
        """Nothing: the bar counts artifacts."""

    def layer(self, name: str) -> None:
        """Nothing: the bar counts artifacts."""

    def artifact(self, path: Path, position: int, total: int) -> None:
        """Say which artifact is being read."""
        if total < 2 or not sys.stderr.isatty():
            return
        from rich.markup import escape

        if self._bar is None or self._task is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=position, description=escape(printable(path.name)))
