"""The sections of a report in their order, on any console of Rich's."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from bnaudit.results import Audit, Report, Severity
from bnaudit.terminal.comparison_lines import comparison_lines
from bnaudit.terminal.exit_meaning import last_line
from bnaudit.terminal.finding_groups import findings
from bnaudit.terminal.ledger_table import ledger
from bnaudit.terminal.run_lines import run_lines
from bnaudit.terminal.skipped_checks import skipped_everywhere
from bnaudit.terminal.summary import other_files, summary
from bnaudit.terminal.unmatched_lines import unmatched_lines
from bnaudit.terminal.verdict_lines import alarms, heading, required_open, verdicts


def whole_report(console: Console, report: Report, in_full: bool, show_accepted: bool) -> None:
    """Print everything about one artifact; of many, the notable ones, a summary, and what did not run."""
    whole = len(report.audits) == 1 or in_full
    for audit in report.audits:
        lists_accepted = show_accepted and len(audit.findings) > len(audit.open_findings)
        if whole or is_notable(audit) or lists_accepted:
            _opening(console, audit, whole, in_full)
            findings(console, audit, in_full, show_accepted, with_skipped=whole)
    if len(report.audits) + len(report.unaudited) > 1 or not report.audits:
        summary(console, report)
    other_files(console, report)
    if not whole:
        skipped_everywhere(console, report)
    unmatched_lines(console, report.unmatched)
    console.print(Text(last_line(report), style="bold" if report.exit_code() else ""))


def is_notable(audit: Audit) -> bool:
    """Whether it is reported on among many: it does not pass, or something graver than a note was found."""
    return audit.exit_code != 0 or any(each.severity >= Severity.WARNING for each in audit.open_findings)


def _opening(console: Console, audit: Audit, whole: bool, in_full: bool) -> None:
    """What stands above the findings."""
    if audit.comparison is not None:
        comparison_lines(console, audit, audit.comparison, in_full)
        return
    heading(console, audit)
    if whole:
        alarms(console, audit)
        verdicts(console, audit)
        run_lines(console, audit)
        ledger(console, audit)
        return
    required_open(console, audit)
    if audit.run_failed:
        run_lines(console, audit)
