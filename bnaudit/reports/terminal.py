"""The report as a person reads it in a terminal: verdicts, ledger, findings, and the shortest possible healthy case."""

from __future__ import annotations

import io

from rich.console import Console

from bnaudit.reports import Renderer, View
from bnaudit.results import Report
from bnaudit.terminal.whole_report import whole_report


def render(report: Report, view: View) -> str:
    """Plain text, with ANSI styles when the view has colour."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=view.width,
        force_terminal=view.color,
        color_system="standard" if view.color else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    whole_report(console, report, view.in_full, view.show_accepted)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


RENDERER = Renderer(name="terminal", suffix=".txt", render=render)
