"""How a report ends, in words that all reports use: the result, the counts, why it has its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from bnaudit.records import replace
from bnaudit.results import Audit, Outcome, Report, Severity
from bnaudit.terminal.amounts import counts_text, plural


class Result(str, Enum):
    """What a report opens with."""

    PASSED = "passed"
    WITH_WARNINGS = "passed, with warnings"
    INFORMATION = "for information only"
    FAILED = "did not pass"
    INCOMPLETE = "not audited completely"
    MISTYPED = "settings that fit nothing"
    UNDECIDED = "not decided"
    UNCHECKED = "not checked"
    INTERRUPTED = "interrupted"


def result(report: Report) -> Result:
    """The result in the fewest words."""
    code = report.exit_code()
    if code == 0:
        return _passed(report)
    if code == 2:
        return Result.INCOMPLETE if _is_broken(report) else Result.MISTYPED
    if code == 3:
        return Result.UNDECIDED if any(audit.looked for audit in report.audits) else Result.UNCHECKED
    return Result.FAILED if code == 1 else Result.INTERRUPTED


def total(report: Report) -> str:
    """`1 error, 2 notes, 3 accepted`: what was found in all."""
    still_open = [finding for finding in report.findings if not finding.accepted]
    found = counts_text(still_open) or "no findings"
    accepted = len(report.findings) - len(still_open)
    return f"{found}, {accepted} accepted" if accepted else found


def last_line(report: Report) -> str:
    """What was found in all, the exit code and its meaning."""
    return f"{total(report)} · exit {report.exit_code()}: {meaning(report)}"


def meaning(report: Report) -> str:
    """What the exit code says, in a few words without a final stop."""
    code = report.exit_code()
    if code == 0:
        return passed_text(_levels(report), _is_excused(report))
    return {1: _found, 2: _broken, 3: _undecided, 130: _interrupted}[code](report)


def passed_text(levels: Iterable[Severity], is_excused: bool) -> str:
    """What exit code 0 says; `levels` are the thresholds of what was audited."""
    return "for information only, --exit-zero" if is_excused else f"nothing at or above {threshold(levels)}"


def broken_text(is_broken: bool) -> str:
    """What exit code 2 says: of artifacts and rules, else of the settings."""
    return "something could not be read or run, or failed" if is_broken else "the settings name what is not there"


def threshold(levels: Iterable[Severity]) -> str:
    """`warning`, `warning or error`; `error` where nothing was audited."""
    return " or ".join(level.label for level in sorted(set(levels))) or Severity.ERROR.label


def _found(report: Report) -> str:
    if any(audit.failing_findings for audit in report.audits):
        return f"findings at or above {threshold(_levels(report))}"
    return f"{_verdicts(report, (Outcome.FAILED,))} required, and failed"


def _broken(report: Report) -> str:
    return broken_text(_is_broken(report))


def _undecided(report: Report) -> str:
    unseen = sum(not audit.looked for audit in report.audits)
    if unseen == len(report.audits):
        compared = any(audit.comparison is not None for audit in report.audits)
        return "nothing could be compared" if compared else "nothing was checked"
    if unseen:
        return f"nothing was checked in {unseen} of {plural(len(report.audits), 'artifact')}"
    if any(audit.undecided for audit in report.audits):
        return f"{_verdicts(report, (Outcome.INCONCLUSIVE, Outcome.NOT_CHECKED))} required, and not decided"
    return f"{plural(len(report.unaudited), 'artifact')} not audited"


def _interrupted(report: Report) -> str:
    return "interrupted, this is what was found so far"


def _passed(report: Report) -> Result:
    if _is_excused(report):
        return Result.INFORMATION
    return Result.WITH_WARNINGS if (report.worst or Severity.NOTE) >= Severity.WARNING else Result.PASSED


def _is_broken(report: Report) -> bool:
    return any(entry.error for entry in report.unaudited) or any(a.failed or a.run_failed for a in report.audits)


def _is_excused(report: Report) -> bool:
    """It would not have passed without --exit-zero."""
    return report.exit_zero and replace(report, exit_zero=False).exit_code() != 0


def _levels(report: Report) -> list[Severity]:
    return [audit.fail_on for audit in report.audits]


def _verdicts(report: Report, outcomes: tuple[Outcome, ...]) -> str:
    named = [name for audit in report.audits for name in _required(audit, outcomes)]
    return ", ".join(dict.fromkeys(named))


def _required(audit: Audit, outcomes: tuple[Outcome, ...]) -> list[str]:
    return [v.question.value for v in audit.verdicts if v.question in audit.required and v.outcome in outcomes]
