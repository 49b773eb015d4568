"""The sections of a report in their order, on any console of Rich's."""

from __future__ import annotations

from rich.console import Console

from bnaudit.results import Audit, Report, Severity
from bnaudit.terminal.finding_groups import findings
from bnaudit.terminal.ledger_table import ledger
from bnaudit.terminal.run_lines import run_lines
from bnaudit.terminal.skipped_checks import skipped_everywhere
from bnaudit.terminal.summary import last_line, other_files, summary
from bnaudit.terminal.unmatched_lines import unmatched_lines
from bnaudit.terminal.verdict_lines import alarms, heading, required_open, verdicts


def whole_report(console: Console, report: Report, in_full: bool, show_accepted: bool) -> None:
    """Print everything about one artifact; of many, the notable ones, a summary, and what did not run."""
    alone = len(report.audits) == 1
    for audit in report.audits:
        if not (
            alone or in_full or _is_notable(audit) or (show_accepted and len(audit.findings) > len(audit.open_findings))
        ):
            continue
        heading(console, audit)
        if alone or in_full:
            alarms(console, audit)
            verdicts(console, audit)
            run_lines(console, audit)
            ledger(console, audit)
        else:
            required_open(console, audit)
            if audit.run_failed:
                run_lines(console, audit)
        findings(console, audit, in_full, show_accepted, with_skipped=alone or in_full)
    if len(report.audits) + len(report.unaudited) > 1 or not report.audits:
        summary(console, report)
    other_files(console, report)
    if not alone and not in_full:
        skipped_everywhere(console, report)
    unmatched_lines(console, report.unmatched)
    last_line(console, report)


def _is_notable(audit: Audit) -> bool:
    worst = max((finding.severity for finding in audit.open_findings), default=Severity.NOTE)
    return worst >= Severity.WARNING or audit.exit_code != 0
