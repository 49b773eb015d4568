"""The report as a person reads it in a terminal: verdicts, ledger, findings, and the shortest possible healthy case."""

from __future__ import annotations

from bnaudit.reports import Renderer, View
from bnaudit.results import Report
from bnaudit.terminal.console_text import console_text
from bnaudit.terminal.whole_report import whole_report


def render(report: Report, view: View) -> str:
    """Plain text, with ANSI styles when the view has colour."""
    return console_text(
        lambda console: whole_report(console, report, view.in_full, view.show_accepted), view.width, view.color
    )


RENDERER = Renderer(name="terminal", suffix=".txt", render=render)
