"""The exit code: what one artifact gives, and what several give together."""

from __future__ import annotations

from typing import Any

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.records import replace
from bnaudit.results import (
    Acceptance,
    Audit,
    Failed,
    Finding,
    Outcome,
    Question,
    Report,
    Severity,
    Unaudited,
    Unmatched,
    Verdict,
)
from bnaudit.rules import rules
from bnaudit.settings import Settings
from bnaudit.terminal.exit_meaning import meaning

NAN = float("nan")
RULES = tuple(rules())
KNOWN = Acceptance(source="b.json", rule="BN106")
MEANT = Settings(fail_on=Severity.WARNING)


def audit(*, faulty: bool = False, settings: Settings = MEANT, **changes: Any) -> Audit:
    """One layer; a faulty one has an error, BN106."""
    layer = batch_norm(var=(NAN, 1.0, 2.0)) if faulty else batch_norm()
    return replace(conclude(description(part([layer])), settings, RULES), **changes)


def verdicts(outcome: Outcome) -> tuple[Verdict, ...]:
    return (Verdict(question=Question.NEIGHBOURS, outcome=outcome),)


HEALTHY = audit()
FAULTY = audit(faulty=True)
BROKEN = audit(failed=(Failed(rule="BN101", name="x", error="ZeroDivisionError"),))
EMPTY = replace(HEALTHY, description=description())
REQUIRED = (Question.NEIGHBOURS,)
UNREADABLE = Unaudited(path="b.pt", why="b.pt is truncated", error=True)
FOREIGN = Unaudited(path="b.keras", why="not read", error=False)


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (HEALTHY, 0),
        (FAULTY, 1),
        (audit(faulty=True, settings=Settings(accept=(KNOWN,))), 0),
        (audit(faulty=True, settings=Settings(accept=(replace(KNOWN, expired=True),))), 1),
        (audit(faulty=True, settings=Settings(severities={"BN106": Severity.WARNING})), 0),
        (audit(faulty=True, settings=replace(MEANT, severities={"BN106": Severity.WARNING})), 1),
        (audit(faulty=True, settings=Settings(fail_on=Severity.NOTE, intended=(("BN106", "*"),))), 0),
        (audit(faulty=True, settings=Settings(fail_on=Severity.NOTE, severities={"BN106": Severity.NOTE})), 1),
        (BROKEN, 2),
        (replace(FAULTY, run_failed=True), 2),
        (EMPTY, 3),
        (replace(HEALTHY, required=REQUIRED, verdicts=verdicts(Outcome.PASSED)), 0),
        (replace(HEALTHY, required=REQUIRED, verdicts=verdicts(Outcome.FAILED)), 1),
        (replace(HEALTHY, required=REQUIRED, verdicts=verdicts(Outcome.INCONCLUSIVE)), 3),
        (replace(HEALTHY, required=REQUIRED, verdicts=verdicts(Outcome.NOT_CHECKED)), 3),
        (replace(HEALTHY, verdicts=verdicts(Outcome.NOT_CHECKED)), 0),
    ],
)
def test_an_artifact_alone(one: Audit, code: int) -> None:
    assert one.exit_code == code
    assert Report(version="0", audits=(one,)).exit_code() == code


UNDECIDED = replace(HEALTHY, required=REQUIRED, verdicts=verdicts(Outcome.NOT_CHECKED))


@pytest.mark.parametrize(
    ("report", "code", "words"),
    [
        (Report(version="0", audits=(HEALTHY,)), 0, "nothing at or above warning"),
        (Report(version="0", audits=(HEALTHY, FAULTY, UNDECIDED)), 1, "findings at or above warning"),
        (Report(version="0", audits=(FAULTY, BROKEN)), 2, "something could not be read"),
        (Report(version="0", audits=(FAULTY,), unaudited=(UNREADABLE,)), 2, "something could not be read"),
        (Report(version="0", audits=(HEALTHY, UNDECIDED)), 3, "neighbours required, and not decided"),
        (Report(version="0", audits=()), 3, "nothing was checked"),
        (Report(version="0", audits=(HEALTHY,), unaudited=(FOREIGN,)), 0, "nothing at or above warning"),
        (Report(version="0", audits=(HEALTHY,), unaudited=(FOREIGN,), gate=True), 3, "1 artifact not audited"),
        (Report(version="0", audits=(FAULTY,), unaudited=(FOREIGN,), gate=True), 1, "findings"),
        (Report(version="0", audits=(FAULTY,), interrupted=True), 130, "interrupted"),
    ],
)
def test_several_together(report: Report, code: int, words: str) -> None:
    assert report.exit_code() == code
    assert meaning(report).startswith(words)


def test_settings_that_name_what_is_not_there_are_wrong_usage_and_stale_ones_are_not() -> None:
    wrong = Unmatched(key="bnaudit.toml: intended.BN302", why="no layer fits: did you mean bn1?", error=True)
    report = Report(version="0", audits=(HEALTHY,), unmatched=(wrong,))
    assert (report.exit_code(), meaning(report)) == (2, "the settings name what is not there")
    assert replace(report, unmatched=(replace(wrong, error=False),)).exit_code() == 0


def test_exit_zero_excuses_findings_and_open_verdicts_and_nothing_else() -> None:
    def code(**fields: Any) -> int:
        return Report(version="0", gate=True, exit_zero=True, **fields).exit_code()

    assert code(audits=(FAULTY, UNDECIDED)) == 0
    assert code(audits=(HEALTHY,), unaudited=(FOREIGN,)) == 0
    assert code(audits=(FAULTY,), unaudited=(UNREADABLE,)) == 2
    assert code(audits=(BROKEN,)) == 2
    assert code(audits=()) == 3
    assert code(audits=(EMPTY,)) == 3
    assert code(audits=(FAULTY,), interrupted=True) == 130
    informed = Report(version="0", audits=(FAULTY,), gate=True, exit_zero=True)
    assert meaning(informed) == "for information only, --exit-zero"


def test_a_required_verdict_that_failed_is_named() -> None:
    failed = replace(HEALTHY, required=REQUIRED, verdicts=verdicts(Outcome.FAILED))
    assert meaning(Report(version="0", audits=(failed,))) == "neighbours required, and failed"


def test_the_worst_is_of_what_nobody_accepted() -> None:
    accepted = audit(faulty=True, settings=Settings(accept=(KNOWN,)))
    assert Report(version="0", audits=(accepted,)).worst is None
    (finding,) = accepted.findings
    assert isinstance(finding, Finding) and finding.severity is Severity.ERROR and finding.acceptance == KNOWN
