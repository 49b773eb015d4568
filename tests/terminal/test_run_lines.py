from __future__ import annotations

from typing import Any

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.measurement import Loaded, Measured, Unmeasured
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.terminal import RENDERER
from bnaudit.results import Audit, Outcome, Question, Report, Verdict
from bnaudit.settings import Settings


def measured(**fields: Any) -> Measured:
    settings: dict[str, Any] = {
        "runner": "PyTorch 2.13.0",
        "inputs": "digits.npz, 29 of 360 samples",
        "synthetic": False,
        "batch_size": 16,
        "anchors": 4,
        "samples": 29,
        "forwards": 7,
        "extra_forwards": 0,
        "seconds": 0.8,
        "measurements": (),
        **fields,
    }
    return Measured(**settings)


def audit(**fields: Any) -> Audit:
    return replace(conclude(description(part([batch_norm()])), Settings(), []), **fields)


def shown(**fields: Any) -> str:
    return RENDERER.render(Report(version="0", audits=(audit(**fields),)), View(width=160))


def test_the_run_is_one_line_below_the_verdicts() -> None:
    text = shown(measured=measured(extra_forwards=2))
    line = (
        "  run: PyTorch 2.13.0 · digits.npz, 29 of 360 samples · batch 16, 4 anchors · 7 forwards + 2 to locate, 0.8 s"
    )
    assert line in text.splitlines()
    assert text.index("frozen means frozen") < text.index("run: ") < text.index("batch norm")
    assert "not run" not in text and "synthetic" not in text
    assert "· 7 forwards, 75 s" not in text
    assert "· 7 forwards, 1 min 15 s" in shown(measured=measured(seconds=75.3))


def test_synthetic_inputs_are_marked_and_remarks_are_said() -> None:
    text = shown(measured=measured(synthetic=True, inputs="synthetic (seed 0)", remarks=("height taken as 224",)))
    assert "· synthetic (seed 0) ·" in text
    assert "synthetic inputs show structure, not how large a gap is: --inputs gives real ones" in text
    assert "  height taken as 224" in text.splitlines()


def test_what_real_inputs_would_decide_is_said_once() -> None:
    open_gap = Verdict(question=Question.GAP, outcome=Outcome.NOT_CHECKED, reason="…", needs="real inputs: --inputs")
    verdicts = (*audit().verdicts[:3], open_gap, *audit().verdicts[4:])
    verdicts = tuple(replace(v, needs="") if v is not open_gap else v for v in verdicts)
    assert shown(measured=measured(synthetic=True), verdicts=verdicts).count("--inputs") == 1
    assert shown(measured=measured(), verdicts=verdicts).count("What is not checked needs real inputs: --inputs.") == 1


def test_how_a_checkpoint_fitted_is_said() -> None:
    loaded = Loaded(
        model="digits.py:build",
        matched=("a", "b"),
        missing=("bn1.running_var",),
        unexpected=("old.1", "old.2", "old.3", "old.4"),
        filled_counters=("a.num_batches_tracked",) * 12,
        mismatched=("c.weight",),
    )
    text = " ".join(shown(measured=measured(measurements=(loaded,))).split())
    assert (
        "2 norm layers loaded into digits.py:build; 1 missing: bn1.running_var; 4 unexpected: old.1, old.2, old.3, …; "
        "1 of another shape: c.weight; counters that load_state_dict filled silently: 12"
    ) in text


def test_why_nothing_was_run_and_what_to_give() -> None:
    wanted = "the model: --model file.py:factory"
    text = shown(not_run="a state dict holds no code", run_needs=wanted)
    assert f"  not run: a state dict holds no code → {wanted}" in text.splitlines()
    assert "What is not checked needs" not in text, "it is said once"
    assert "  not run: allow it with --run" in shown(not_run="not run: allow it with --run", run_needs="--run")


def test_a_run_that_was_asked_for_and_failed_is_no_dim_remark() -> None:
    report = Report(version="0", audits=(audit(not_run="ValueError: (3, 4) at net.py:7", run_failed=True),))
    text = RENDERER.render(report, View(width=100, color=True))
    assert "\x1b[1;31mcould not run: \x1b[0mValueError: (3, 4) at net.py:7" in text
    assert "exit 2" in text


def test_among_many_artifacts_only_a_failed_run_is_told() -> None:
    failed = audit(not_run="ValueError: (3, 4) at net.py:7", run_failed=True)
    waiting = audit(not_run="a state dict holds no code", run_needs="the model")
    text = RENDERER.render(Report(version="0", audits=(failed, waiting)), View(width=100))
    assert text.count("could not run: ValueError: (3, 4) at net.py:7") == 1
    assert "not run: a state dict" not in text


def test_probes_that_did_not_finish_are_named_with_the_reason() -> None:
    unmeasured = (
        Unmeasured(probe="train_eval_gap", why="the budget of 1 s ran out", needs="more time", inconclusive=True),
        Unmeasured(probe="norm_sizes", why="it ran out before this", needs="more time", inconclusive=True),
        Unmeasured(probe="neighbours", why="a graph fixes its batch at one"),
    )
    text = shown(measured=measured(unmeasured=unmeasured))
    assert "not finished: train eval gap, norm sizes: the budget of 1 s ran out → more time" in text
    assert "not measured: neighbours: a graph fixes its batch at one" in text


def test_an_interrupted_run_says_so() -> None:
    assert "interrupted: this is what was found so far" in shown(measured=measured(interrupted=True))


@pytest.mark.parametrize("width", [40, 80])
def test_names_from_the_run_are_harmless_and_fit(width: int) -> None:
    hostile = "net\x1b[2J\n\u202e.py"
    loaded = Loaded(model=hostile, matched=(), missing=(hostile,), unexpected=(), filled_counters=())
    unmeasured = (Unmeasured(probe="gap", why=hostile, needs=hostile),)
    run = measured(runner=hostile, inputs=hostile, remarks=(hostile,), measurements=(loaded,), unmeasured=unmeasured)
    for fields in ({"measured": run}, {"not_run": hostile, "run_needs": "x" + hostile}):
        text = RENDERER.render(Report(version="0", audits=(audit(**fields),)), View(width=width))
        assert "\x1b" not in text and "\u202e" not in text
        assert max(map(len, text.splitlines())) <= width
