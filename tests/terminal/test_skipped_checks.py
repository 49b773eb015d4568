from __future__ import annotations

from typing import Any

from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.terminal import RENDERER
from bnaudit.results import Audit, Confidence, Finding, Question, Report, Severity, Skipped
from bnaudit.settings import Settings

RUN = "a run of the model (--run)"


def checks(*ids: str, needs: str = RUN) -> tuple[Skipped, ...]:
    return tuple(Skipped(rule=id, name=f"name-of-{id.lower()}", needs=needs) for id in ids)


def audit(*skipped: Skipped, **fields: Any) -> Audit:
    return replace(conclude(description(part([batch_norm()])), Settings(), []), skipped=skipped, **fields)


def shown(*audits: Audit, **view: Any) -> str:
    return RENDERER.render(Report(version="0", audits=audits), View(width=120, **view))


def test_checks_that_need_the_same_are_one_line() -> None:
    skipped = checks("BN301", "BN302", "BN303", "BN305", "BN401", "BN402")
    text = shown(audit(*skipped, *checks("BN601", needs="baseline")))
    assert "6 checks did not run (BN301–BN303, BN305, BN401, BN402): they need a run of the model (--run)" in text
    assert "BN601 name-of-bn601 did not run: it needs baseline" in text
    assert "name-of-bn301" not in text


def test_in_full_every_check_is_named() -> None:
    text = shown(audit(*checks("BN301", "BN302")), in_full=True)
    for name in ("name-of-bn301", "name-of-bn302"):
        assert f"{name} did not run: it needs a run of the model (--run)" in text


def test_what_a_run_needs_is_said_once() -> None:
    text = shown(audit(*checks("BN301", "BN302"), not_run="this is TorchScript", run_needs=RUN))
    assert text.count(RUN) == 1
    assert "2 checks wait for a run: BN301, BN302" in text


def test_many_artifacts_say_it_once_for_all() -> None:
    some = [audit(*checks("BN301", "BN302", "BN303")), audit(*checks("BN301", "BN302")), audit()]
    text = shown(*some)
    assert "in 2 of 3: 3 checks did not run (BN301–BN303): they need a run of the model (--run)" in text
    assert text.count("did not run") == 1


def test_many_artifacts_say_why_a_run_that_was_tried_did_not_work() -> None:
    tried = audit(
        *checks("BN301", "BN302", needs="a run that works"), not_run="onnx is not installed: pip install onnx"
    )
    untried = audit(*checks("BN301", "BN302"), not_run="a state dict holds no code", run_needs=RUN)
    text = shown(tried, untried)
    assert "in 1 of 2: 2 checks did not run (BN301, BN302): they need a run that works (onnx is not installed" in text
    assert "holds no code" not in text


def test_what_is_intended_is_a_note_that_says_so() -> None:
    found = Finding(
        rule="BN302",
        name="nondeterministic-prediction",
        severity=Severity.NOTE,
        confidence=Confidence.HIGH,
        artifact="model.pt",
        part="",
        layer="prenet.dropout",
        message="the same batch gives another output",
        value=None,
        limit=None,
        advice="seed it",
        channels=(),
        question=Question.EVAL_MODE,
        fails=False,
        undecided="",
        fingerprint="0123456789abcdef",
        intended=True,
    )
    other = replace(found, layer="postnet.dropout", intended=False)
    text = shown(audit(findings=(found, other)))
    assert "note BN302 nondeterministic-prediction (intended) in prenet.dropout: the same batch" in text
    assert "note BN302 nondeterministic-prediction in postnet.dropout: the same batch" in text
    assert "note BN302 nondeterministic-prediction  (intended)" in shown(audit(findings=(found,)), in_full=True)
