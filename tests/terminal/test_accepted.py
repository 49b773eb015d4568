"""Accepted findings are counted, listed when asked for, and back when their time is over."""

from __future__ import annotations

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.records import replace
from bnaudit.reports import View, renderer
from bnaudit.results import Acceptance, Report, Severity, Unmatched
from bnaudit.rules import rules
from bnaudit.settings import Settings

KNOWN = Acceptance(source="bnaudit.toml: accept[0]", rule="BN106", reason="retrained in May", until="2027-05-31")


def shown(known: Acceptance, show_accepted: bool = False, copies: int = 1) -> str:
    subject = description(part([batch_norm(var=(float("nan"), 1.0, 2.0))]))
    audit = conclude(subject, Settings(fail_on=Severity.WARNING, accept=(known,)), tuple(rules()))
    report = Report(version="0", audits=(audit,) * copies)
    return renderer("terminal").render(report, View(show_accepted=show_accepted))


@pytest.mark.parametrize("copies", [1, 2])
def test_they_are_counted_and_not_shown(copies: int) -> None:
    text = shown(KNOWN, copies=copies)
    assert "BN106 non-finite-statistics\n" not in text
    assert text.splitlines()[-1] == f"no findings, {copies} accepted · exit 0: nothing at or above warning"
    if copies == 1:
        assert "1 accepted finding (--show-accepted lists them)" in text


@pytest.mark.parametrize("copies", [1, 2])
def test_they_are_listed_with_reason_end_and_place(copies: int) -> None:
    text = shown(KNOWN, show_accepted=True, copies=copies)
    assert text.count("error BN106 non-finite-statistics") == copies
    assert "accepted until 2027-05-31 (retrained in May): bnaudit.toml: accept[0]" in text
    assert "lists them" not in text


def test_one_that_has_expired_is_a_finding_and_says_so() -> None:
    text = shown(replace(KNOWN, expired=True))
    assert "error BN106 non-finite-statistics" in text
    assert "was accepted until 2027-05-31 (retrained in May): bnaudit.toml: accept[0]" in text
    assert text.splitlines()[-1] == "1 error · exit 1: findings at or above warning"


def test_a_hostile_reason_reaches_no_terminal_as_a_command() -> None:
    text = shown(replace(KNOWN, reason="\x1b[2Jgone\r\n"), show_accepted=True)
    assert "\x1b" not in text and "\r" not in text


def test_what_fits_nothing_is_told_before_the_last_line() -> None:
    stale = Unmatched(key="base.json", why="BN106 in bn9 is no longer found: remove it", error=False)
    wrong = Unmatched(key="bnaudit.toml: intended.BN302", why="'prenett.*' fits no layer", error=True)
    report = Report(version="0", audits=(), unmatched=(stale, wrong))
    lines = renderer("terminal").render(report, View()).splitlines()
    assert lines[-3:-1] == [
        "stale base.json: BN106 in bn9 is no longer found: remove it",
        "error bnaudit.toml: intended.BN302: 'prenett.*' fits no layer",
    ]
