from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.description import Description, Gap, NormLayer, StoredTensor
from bnaudit.results import Confidence, Hit, Outcome, Question, Report, Severity
from bnaudit.rules import Case, Check, Rule
from bnaudit.settings import Settings


def rule(id: str, *hits: Hit, check: Check | None = None, **fields: Any) -> Rule:
    def yielding(case: Case) -> Iterator[Hit]:
        yield from hits

    settings: dict[str, Any] = {
        "severity": Severity.ERROR,
        "question": Question.BUFFERS,
        "limits": MappingProxyType({}),
        "needs": (),
        "yields_to": (),
        **fields,
    }
    return Rule(id=id, name=id.lower(), check=check or yielding, doc="page", **settings)


def hit(layer: str | None = "bn1", **fields: Any) -> Hit:
    return Hit(layer=layer, message="m", advice="a", **fields)


SUBJECT = description(part([batch_norm()]))


def test_findings_are_stamped_and_come_worst_first() -> None:
    rules = [rule("BN112", hit(), severity=Severity.NOTE), rule("BN106", hit())]
    audit = conclude(SUBJECT, Settings(), rules)
    assert [(f.rule, f.severity, f.artifact) for f in audit.findings] == [
        ("BN106", Severity.ERROR, "model.pt"),
        ("BN112", Severity.NOTE, "model.pt"),
    ]


def test_confidence_caps_severity_and_so_the_verdict() -> None:
    unsure = conclude(SUBJECT, Settings(), [rule("BN106", hit(confidence=Confidence.LOW))])
    assert unsure.findings[0].severity is Severity.NOTE
    assert unsure.verdicts[0].outcome is Outcome.PASSED
    trusting = conclude(
        SUBJECT, Settings(min_confidence=Confidence.LOW), [rule("BN106", hit(confidence=Confidence.LOW))]
    )
    assert trusting.findings[0].severity is Severity.ERROR
    assert trusting.verdicts[0].outcome is Outcome.FAILED


def test_the_more_specific_rule_speaks_even_when_it_was_not_selected() -> None:
    general = rule("BN105", hit("a"), hit("b"), hit(None), yields_to=("BN104",))
    specific = rule("BN104", hit("a"))
    both = conclude(SUBJECT, Settings(), [general, specific])
    assert [(f.rule, f.layer) for f in both.findings] == [("BN104", "a"), ("BN105", "b"), ("BN105", None)]
    only_general = conclude(SUBJECT, Settings(), [general], [specific])
    assert [(f.rule, f.layer) for f in only_general.findings] == [("BN105", "b"), ("BN105", None)]


def test_a_rule_that_breaks_is_reported_and_stops_no_other() -> None:
    def broken(case: Case) -> Iterator[Hit]:
        raise ZeroDivisionError("by nothing")
        yield

    audit = conclude(SUBJECT, Settings(), [rule("BN101", check=broken), rule("BN106", hit())])
    (failed,) = audit.failed
    assert failed.rule == "BN101"
    assert "ZeroDivisionError: by nothing at test_auditing.py:" in failed.error
    assert [f.rule for f in audit.findings] == ["BN106"]


def test_a_rule_without_what_it_needs_is_skipped_and_says_so() -> None:
    audit = conclude(SUBJECT, Settings(), [rule("BN601", hit(), needs=("baseline",))])
    assert not audit.findings
    assert [(s.rule, s.needs) for s in audit.skipped] == [("BN601", "a baseline: bnaudit compare baseline.pt model.pt")]


def test_limits_of_the_settings_replace_the_rules_own() -> None:
    def check(case: Case) -> Iterator[Hit]:
        yield hit(value=case.limits["share"], limit=case.limits["count"])

    declared = rule("BN105", check=check, limits=MappingProxyType({"share": 0.05, "count": 3.0}))
    audit = conclude(SUBJECT, Settings(limits={"BN105": {"share": 0.2}}), [declared])
    assert (audit.findings[0].value, audit.findings[0].limit) == (0.2, 3.0)


def test_fingerprints_survive_retraining_and_wrapping_and_tell_places_apart() -> None:
    def fingerprint(id: str, found: Hit) -> str:
        return conclude(SUBJECT, Settings(), [rule(id, found)]).findings[0].fingerprint

    base = fingerprint("BN106", hit("layer1.bn", value=1.0))
    assert fingerprint("BN106", hit("layer1.bn", value=7.0)) == base
    assert fingerprint("BN106", hit("module.layer1.bn", value=1.0)) == base
    others = [
        fingerprint("BN107", hit("layer1.bn")),
        fingerprint("BN106", hit("layer2.bn")),
        fingerprint("BN106", hit("layer1.bn", part="ema")),
        fingerprint("BN106", hit(None)),
        fingerprint("BN106", hit(None, value="posix.system")),
    ]
    assert len({base, *others}) == 6


def test_what_is_intended_is_a_note_that_fails_nothing() -> None:
    meant = Settings(intended=(("BN106", "prenet.*"),))
    inside, outside = hit("module.prenet.bn"), hit("bn1")
    audit = conclude(SUBJECT, meant, [rule("BN106", inside, outside)])
    found = {finding.layer: finding for finding in audit.findings}
    assert (found["bn1"].severity, found["bn1"].fails, found["bn1"].intended) == (Severity.ERROR, True, False)
    noted = found["module.prenet.bn"]
    assert (noted.severity, noted.fails, noted.intended) == (Severity.NOTE, False, True)
    only_inside = conclude(SUBJECT, meant, [rule("BN106", inside)])
    assert only_inside.verdicts[0].outcome is Outcome.PASSED
    assert only_inside.verdicts[0].reason.startswith("except as intended: bn106 (BN106)")
    nowhere = conclude(SUBJECT, meant, [rule("BN106", hit(None))])
    assert nowhere.verdicts[0].outcome is Outcome.FAILED


def test_what_is_intended_by_a_rule_covers_the_more_specific_one_that_speaks_for_it() -> None:
    meant = Settings(intended=(("BN105", "a"),))
    general, specific = rule("BN105", hit("a"), yields_to=("BN104",)), rule("BN104", hit("a"), hit("b"))
    found = {finding.layer: finding for finding in conclude(SUBJECT, meant, [general, specific]).findings}
    assert (found["a"].rule, found["a"].intended, found["b"].intended) == ("BN104", True, False)


def test_a_rule_that_was_not_selected_is_not_told_to_have_been_skipped() -> None:
    general = rule("BN105", hit("a"), yields_to=("BN401",))
    measured = rule("BN401", hit("a"), needs=("eval_mode",))
    audit = conclude(SUBJECT, Settings(), [general], [measured])
    assert (audit.skipped, [finding.rule for finding in audit.findings]) == ((), ["BN105"])


def test_an_open_point_makes_the_verdict_inconclusive() -> None:
    audit = conclude(SUBJECT, Settings(), [rule("BN101", hit(severity=Severity.NOTE, undecided="give the model"))])
    assert audit.verdicts[0].outcome is Outcome.INCONCLUSIVE
    assert audit.verdicts[0].reason == "give the model"


@pytest.mark.parametrize(("settles", "outcome"), [(True, Outcome.FAILED), (False, Outcome.PASSED)])
def test_a_hit_can_say_whether_it_settles_its_question(settles: bool, outcome: Outcome) -> None:
    audit = conclude(SUBJECT, Settings(), [rule("BN502", hit(severity=Severity.NOTE, settles=settles))])
    assert audit.verdicts[0].outcome is outcome


def unread(name: str) -> NormLayer:
    lost = StoredTensor(name=f"{name}.weight", dtype="float32", shape=(3,), values=None, absence="cut off", unread=True)
    return batch_norm(name, mean=None, var=None, beta=None, counter=None, gamma=lost)


@pytest.mark.parametrize(
    ("subject", "looked"),
    [
        (description(part([batch_norm()])), True),
        (description(part([])), True),
        (description(), False),
        (description(part([]), gaps=(Gap(where="code", why="not parsed"),)), False),
        (description(part([]), gaps=(Gap(where="data", why="sparse", hides_norms=False),)), True),
        (description(part([unread("a"), unread("b")])), False),
        (description(part([unread("a"), batch_norm("b")])), True),
    ],
)
def test_an_artifact_of_which_no_norm_layer_could_be_read_was_not_checked(subject: Description, looked: bool) -> None:
    audit = conclude(subject, Settings(), [])
    assert audit.looked is looked
    assert Report(version="0", audits=(audit,)).exit_code() == (0 if looked else 3)
