from __future__ import annotations

from typing import Any

import pytest
from zoo.faults import Planted
from zoo.judging import false_alarms, outcome

PLANTED = Planted("NaN", "BN106", "error", ("bn2",))


def found(rule: str, layer: str | None, severity: str = "error", message: str = "") -> dict[str, Any]:
    return {"rule": rule, "layer": layer, "severity": severity, "message": message}


def test_the_rule_at_the_layer_is_found_and_located() -> None:
    assert outcome(PLANTED, [found("BN106", "bn2"), found("BN110", "bn1", "note")], []) == (True, True, [])


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], (False, False)),
        ([found("BN107", "bn2")], (False, False)),
        ([found("BN106", "bn2", "warning")], (False, False)),
        ([found("BN106", "bn1")], (True, False)),
        ([found("BN106", "bn1"), found("BN106", "bn2")], (True, False)),
        ([found("BN106", None, message="in 3 layers")], (True, False)),
        ([found("BN106", None, message="in bn2")], (True, True)),
        ([found("BN106", "bn2.forward.group_norm")], (True, True)),
        ([found("BN106", "bn1.forward.group_norm")], (True, False)),
    ],
)
def test_another_rule_layer_or_severity_is_not_it(findings: list[dict[str, Any]], expected: tuple[bool, bool]) -> None:
    result = outcome(PLANTED, findings, [])
    assert (result.found, result.located) == expected


def test_what_was_told_before_the_fault_does_not_count_as_found() -> None:
    before = [found("BN106", "bn2")]
    assert outcome(PLANTED, before, before) == (False, False, [])


def test_what_is_told_beside_the_fault_is_false_unless_it_was_told_before_or_is_a_note() -> None:
    before = [found("BN103", "aux")]
    findings = [found("BN106", "bn2"), found("BN103", "aux"), found("BN112", None, "note"), found("BN107", "bn2")]
    assert outcome(PLANTED, findings, before).beside == [found("BN107", "bn2")]
    findings = [found("BN106", "bn2"), found("BN106", "bn9")]
    assert outcome(PLANTED, findings, []).beside == [found("BN106", "bn9")]


def test_a_layer_that_never_ran_may_be_told_so_by_its_rule_alone() -> None:
    findings = [found("BN103", "aux"), found("BN105", "aux"), found("BN103", "bn1"), found("BN103", "aux", "note")]
    assert false_alarms(findings, {"aux"}) == [found("BN105", "aux"), found("BN103", "bn1")]
    assert len(false_alarms(findings)) == 3
