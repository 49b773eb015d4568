"""What kept an audit from being whole, or from passing for another reason than a finding, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from bnaudit.printable import printable
from bnaudit.results import Audit, Failed, Outcome, Report, Severity, Skipped, Verdict
from bnaudit.terminal.amounts import plural


class Kind(str, Enum):
    """What sort of obstacle; the value is a stable name for programs."""

    INTERRUPTED = "interrupted"
    NOTHING = "nothing-checked"
    UNAUDITED = "not-audited"
    BROKEN = "internal-failure"
    NOT_RUN = "not-run"
    UNDECIDED = "required-not-decided"
    REFUSED = "required-failed"
    UNREAD = "not-read"
    UNMATCHED = "matches-nothing"

    @property
    def words(self) -> str:
        """The value for people."""
        return self.value.replace("-", " ")


class Obstacle(NamedTuple):
    """One of them. ERROR: the report does not pass because of it."""

    kind: Kind
    severity: Severity
    text: str
    """One sentence or two, printable, with the path."""
    path: str = ""
    """The artifact's, as the report has it; "": the whole report."""
    rule: str = ""
    """The id of a rule that broke."""


class NotRun(NamedTuple):
    """Checks that did not run for want of the same thing."""

    rules: str
    """`BN301, BN302`."""
    needs: str
    where: str
    """`2 of 3 artifacts`."""


def obstacles(report: Report) -> list[Obstacle]:
    """All of them, worst first."""
    found = [*_of_the_report(report), *(each for audit in report.audits for each in _of_an_audit(audit))]
    return sorted(found, key=lambda each: -each.severity)


def checks_not_run(report: Report) -> list[NotRun]:
    """What did not run, by what it needs."""
    lacking: dict[str, int] = {}
    rules: dict[str, set[str]] = {}
    for audit in report.audits:
        for need, checks in by_need(audit.skipped).items():
            lacking[need] = lacking.get(need, 0) + 1
            rules.setdefault(need, set()).update(check.rule for check in checks)
    total = plural(len(report.audits), "artifact")
    return [
        NotRun(", ".join(sorted(ids)), printable(need), f"{lacking[need]} of {total}") for need, ids in rules.items()
    ]


def by_need(skipped: Iterable[Skipped]) -> dict[str, list[Skipped]]:
    """What is needed → the checks that did not run without it."""
    groups: dict[str, list[Skipped]] = {}
    for check in skipped:
        groups.setdefault(check.needs, []).append(check)
    return groups


def _of_the_report(report: Report) -> Iterator[Obstacle]:
    if report.interrupted:
        yield Obstacle(Kind.INTERRUPTED, Severity.ERROR, "stopped by the user: this is what was found so far")
    if not report.audits and not report.unaudited:
        yield Obstacle(Kind.NOTHING, Severity.ERROR, "nothing was audited")
    for unread in report.unaudited:
        severity = Severity.ERROR if unread.error or report.gate else Severity.WARNING
        path, why = printable(unread.path), printable(unread.why)
        text = why if path in why else f"{path}: {why}"
        yield Obstacle(Kind.UNAUDITED, severity, text, unread.path)
    for entry in report.unmatched:
        severity = Severity.ERROR if entry.error else Severity.WARNING
        yield Obstacle(Kind.UNMATCHED, severity, f"{printable(entry.key)}: {printable(entry.why)}")


def _of_an_audit(audit: Audit) -> Iterator[Obstacle]:
    path = audit.artifact.path
    name = printable(path)
    for failed in audit.failed:
        yield Obstacle(Kind.BROKEN, Severity.ERROR, f"{name}: {failure_text(failed)}", path, failed.rule)
    if audit.not_run or audit.run_needs or audit.run_failed:
        severity = Severity.ERROR if audit.run_failed else Severity.NOTE
        yield Obstacle(Kind.NOT_RUN, severity, f"{name}: {': '.join(not_run_text(audit))}", path)
    if not audit.looked:
        yield Obstacle(Kind.NOTHING, Severity.ERROR, f"{name}: {unseen_text(audit)}", path)
    for verdict in _required(audit):
        kind = Kind.REFUSED if verdict.outcome is Outcome.FAILED else Kind.UNDECIDED
        yield Obstacle(kind, Severity.ERROR, f"{name}: {required_text(verdict)}", path)
    for gap in audit.gaps:
        severity = Severity.WARNING if gap.hides_norms else Severity.NOTE
        text = f"{name}: {printable(gap.where)} was not read: {printable(gap.why)}"
        yield Obstacle(Kind.UNREAD, severity, text, path)
    for entry in audit.measured.unmeasured if audit.measured is not None else ():
        what = f"{entry.probe.replace('_', ' ')} {'not finished' if entry.inconclusive else 'not measured'}"
        text = f"{name}: {printable(what)}: {printable(entry.why)}{_arrow(entry.needs, entry.why)}"
        yield Obstacle(Kind.NOT_RUN, Severity.NOTE, text, path)


def _required(audit: Audit) -> Iterator[Verdict]:
    """Those that have to pass and do not, unless findings say so already."""
    told = {finding.question for finding in audit.failing_findings}
    for verdict in audit.verdicts:
        failed_otherwise = verdict.outcome is Outcome.FAILED and verdict.question not in told
        if verdict in audit.undecided or (failed_otherwise and verdict.question in audit.required):
            yield verdict


def unseen_text(audit: Audit) -> str:
    """Why an audit that looked at nothing says nothing."""
    if audit.comparison is not None:
        return "nothing could be compared"
    return "nothing was checked, no norm layer could be read"


def required_text(verdict: Verdict) -> str:
    """`neighbours is required and not checked: a state dict holds no code → the model: --model …`."""
    reason = f": {printable(verdict.reason)}" if verdict.reason else ""
    said = f"{verdict.question.value} is required and {verdict.outcome.value}{reason}"
    return said + _arrow(verdict.needs, verdict.reason)


def not_run_text(audit: Audit) -> tuple[str, str]:
    """`could not run` or `not run`; and why, with what to give."""
    head = "could not run" if audit.run_failed else "not run"
    why = printable(audit.not_run).removeprefix("not run: ")
    return head, f"{why}{_arrow(audit.run_needs, audit.not_run)}" if why else printable(audit.run_needs)


def failure_text(failed: Failed) -> str:
    """`internal failure in BN199 broken-rule: ZeroDivisionError`, printable."""
    return printable(" ".join(f"internal failure in {failed.rule} {failed.name}: {failed.error}".split()))


def _arrow(needs: str, said: str) -> str:
    return f" → {printable(needs)}" if needs and needs not in said else ""
