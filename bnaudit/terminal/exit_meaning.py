"""Why a report ends with its exit code, in words."""

from __future__ import annotations

from bnaudit.results import Audit, Finding, Outcome, Report, Severity
from bnaudit.terminal.amounts import plural


def meaning(report: Report) -> str:
    """What the exit code says, in a few words without a final stop."""
    code = report.exit_code()
    if code == 0:
        return _would_fail(report) if report.exit_zero else f"nothing at or above {_threshold(report)}"
    return {1: _found, 2: _broken, 3: _undecided, 130: _interrupted}[code](report)


def open_findings(report: Report) -> list[Finding]:
    """All findings of all artifacts that nobody accepted."""
    return [finding for audit in report.audits for finding in audit.open_findings]


def _found(report: Report) -> str:
    if any(finding.severity >= audit.fail_on for audit in report.audits for finding in audit.open_findings):
        return f"findings at or above {_threshold(report)}"
    return f"{_verdicts(report, (Outcome.FAILED,))} required, and failed"


def _broken(report: Report) -> str:
    if any(entry.error for entry in report.unaudited) or any(a.failed or a.run_failed for a in report.audits):
        return "something could not be read or run, or failed"
    return "the settings name what is not there"


def _undecided(report: Report) -> str:
    if not report.looked:
        return "nothing was checked"
    if any(audit.undecided for audit in report.audits):
        return f"{_verdicts(report, (Outcome.INCONCLUSIVE, Outcome.NOT_CHECKED))} required, and not decided"
    return f"{plural(len(report.unaudited), 'artifact')} not audited"


def _interrupted(report: Report) -> str:
    return "interrupted, this is what was found so far"


def _would_fail(report: Report) -> str:
    without = {audit.exit_code for audit in report.audits}
    if without & {1, 3} or report.unaudited:
        return "for information only, --exit-zero"
    return f"nothing at or above {_threshold(report)}"


def _threshold(report: Report) -> str:
    levels = sorted({audit.fail_on for audit in report.audits}) or [Severity.ERROR]
    return " or ".join(level.label for level in levels)


def _verdicts(report: Report, outcomes: tuple[Outcome, ...]) -> str:
    named = [name for audit in report.audits for name in _required(audit, outcomes)]
    return ", ".join(dict.fromkeys(named))


def _required(audit: Audit, outcomes: tuple[Outcome, ...]) -> list[str]:
    return [v.question.value for v in audit.verdicts if v.question in audit.required and v.outcome in outcomes]
