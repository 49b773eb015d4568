"""Healthy models and intended oddities: no warning, no failed question, and the questions are decided."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_time.run_carriers import written
from run_time.running_controls import CONTROLS, Control
from run_time.subjects_of_runs import audited, failed, loud, undecided
from run_time.symptoms import SYMPTOMS

CASES = [
    pytest.param(control, carrier, id=f"{control.name}, {carrier}")
    for control in CONTROLS
    for carrier in control.carriers
]
QUIET = [case for case in CASES if case.values[0].quiet and case.values[1] in ("live", "onnx")]
NOISE = {"float16": 5e-3, "bfloat16": 3e-2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("controls")


@pytest.mark.parametrize(("control", "carrier"), QUIET)
def test_it_has_no_symptom_when_it_runs_by_itself(control: Control, carrier: str, folder: Path) -> None:
    given = written(control, carrier, folder)
    noise = NOISE.get(control.name.partition(",")[0], 1e-5)
    for symptom, measure in SYMPTOMS.items():
        assert measure(carrier, given, control.inputs()) < noise, symptom


@pytest.mark.parametrize(("control", "carrier"), CASES)
def test_nothing_is_said_aloud(control: Control, carrier: str, folder: Path) -> None:
    audit = audited(written(control, carrier, folder), control.inputs(), control.intended, **dict(control.run))
    assert [(finding.rule, finding.layer, finding.message) for finding in loud(audit)] == []
    assert failed(audit) == set()
    left = {question: why for question, why in undecided(audit).items() if question not in control.open}
    assert left == {}
