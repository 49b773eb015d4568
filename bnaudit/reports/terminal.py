"""The report as a person reads it in a terminal: verdicts, ledger, findings, and the shortest possible healthy case."""

from __future__ import annotations

import io

from rich.console import Console

from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, Report, Severity
from bnaudit.terminal.finding_groups import findings
from bnaudit.terminal.ledger_table import ledger
from bnaudit.terminal.summary import last_line, summary
from bnaudit.terminal.verdict_lines import alarms, heading, verdicts


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
    shown = [audit for audit in report.audits if len(report.audits) == 1 or view.in_full or _is_notable(audit)]
    for audit in shown:
        heading(console, audit)
        if len(report.audits) == 1 or view.in_full:
            alarms(console, audit)
            verdicts(console, audit)
            ledger(console, audit)
        findings(console, audit, view.in_full)
    if len(report.audits) + len(report.unaudited) > 1 or not report.audits:
        summary(console, report)
    last_line(console, report, view.fail_on)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _is_notable(audit: Audit) -> bool:
    worst = max((finding.severity for finding in audit.findings), default=Severity.NOTE)
    return worst >= Severity.WARNING or bool(audit.failed) or not audit.looked


RENDERER = Renderer(name="terminal", suffix=".txt", render=render)
