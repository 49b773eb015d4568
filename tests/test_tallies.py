from __future__ import annotations

import json
from typing import Any

import pytest
from builders import batch_norm, description, part

from bnaudit.artifact_objects import artifact_line
from bnaudit.auditing import conclude
from bnaudit.records import replace
from bnaudit.results import Audit, Failed, Outcome, Question, Severity, Unaudited, Unmatched
from bnaudit.rules import rules
from bnaudit.settings import Settings
from bnaudit.tallies import Counted, Found, Tally, counted

NAN = Found(Severity.ERROR, "BN106", "non-finite-statistics")


def entry(path: str, code: int, **fields: Any) -> Counted:
    base = Counted(
        path=path,
        exit_code=code,
        audited=True,
        error=False,
        reason="",
        looked=True,
        fail_on=Severity.ERROR,
        found={},
        accepted=0,
    )
    return base._replace(**fields)


def line(audit: Audit | Unaudited) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(artifact_line(audit))
    return parsed


def audit(**fields: Any) -> Audit:
    concluded = conclude(description(part([batch_norm("a"), batch_norm("b")])), Settings(), tuple(rules()))
    return replace(concluded, **fields)


def test_a_line_is_counted_without_what_is_accepted() -> None:
    broken = description(part([batch_norm("a", var=[float("nan")]), batch_norm("b", var=[float("nan")])]))
    found = conclude(broken, Settings(fail_on=Severity.WARNING), tuple(rules()))
    seen = counted(line(found))
    assert (seen.path, seen.exit_code, seen.fail_on, seen.found[NAN]) == ("model.pt", 1, Severity.WARNING, 2)
    known = line(found)
    for each in known["findings"]:
        each["accepted"] = True
    assert (counted(known).found, counted(known).accepted) == ({}, len(known["findings"]))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (Unaudited(path="a.pt", why="a.pt is empty", error=True), "a.pt is empty"),
        (audit(failed=(Failed(rule="BN101", name="x", error="ValueError: y"),)), "BN101 failed: ValueError: y"),
        (audit(run_failed=True, not_run="torch is not installed"), "torch is not installed"),
        (audit(required=(Question.EVAL_MODE, Question.BUFFERS)), "eval-mode not checked"),
        (audit(), ""),
    ],
)
def test_what_else_keeps_an_artifact_from_passing_is_said(made: Audit | Unaudited, reason: str) -> None:
    assert counted(line(made)).reason == reason


def test_an_artifact_in_which_nothing_was_checked_says_so() -> None:
    nothing = conclude(description(), Settings(), ())
    assert counted(line(nothing)).reason == "nothing in it was checked"
    assert counted(line(nothing)).looked is False


@pytest.mark.parametrize("spoil", ["findings", "exit_code", "audited", "fail_on", "verdicts"])
def test_what_is_no_line_is_refused_with_few_kinds_of_errors(spoil: str) -> None:
    spoiled = line(audit(required=(Question.EVAL_MODE,)))
    del spoiled[spoil]
    with pytest.raises((KeyError, TypeError, ValueError)):
        counted(spoiled)


def test_counts_add_up_and_the_worst_are_kept_by_name() -> None:
    tally = Tally()
    for number in range(100):
        tally.add(entry(f"{number:03}.pt", 0))
    for number in range(30):
        tally.add(entry(f"bad{number:02}.pt", 1, found={NAN: number}))
    tally.add(entry("gone.pt", 2, audited=False, error=True, looked=False, fail_on=None))
    tally.add(entry("net.tflite", 3, audited=False, looked=False, fail_on=None))
    assert (tally.total, tally.audited, tally.errors, tally.unread) == (132, 130, 1, 1)
    assert (tally.findings[NAN], tally.artifacts_with[NAN]) == (sum(range(30)), 30)
    assert tally.not_passing == 32
    assert [each.path for each in tally.worst] == ["gone.pt", *(f"bad{number}.pt" for number in range(29, 20, -1))]
    assert tally.looked, "what was not audited is told otherwise"


def test_exit_codes_go_by_what_is_worst() -> None:
    tally = Tally()
    assert tally.exit_code() == 3, "nothing was looked at"
    codes = []
    for code in (0, 3, 1, 2):
        tally.add(entry(f"{code}.pt", code))
        codes.append(tally.exit_code())
    assert codes == [0, 3, 1, 2]
    tally.interrupted = True
    assert tally.exit_code() == 130


def test_a_mistyped_pattern_gives_2_and_a_stale_one_nothing() -> None:
    tally = Tally(exit_zero=True)
    tally.add(entry("a.pt", 1))
    tally.unmatched = (Unmatched(key="k", why="w", error=False),)
    assert tally.exit_code() == 0
    tally.unmatched = (Unmatched(key="k", why="w", error=True),)
    assert tally.exit_code() == 2


def test_a_verdict_that_failed_and_is_required_is_named() -> None:
    failed = audit(required=(Question.NEIGHBOURS,))
    changed = tuple(
        replace(each, outcome=Outcome.FAILED) if each.question is Question.NEIGHBOURS else each
        for each in failed.verdicts
    )
    seen = counted(line(replace(failed, verdicts=changed)))
    assert (seen.exit_code, seen.reason) == (1, "neighbours failed")
