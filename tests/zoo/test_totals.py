from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from zoo.exceptions import CRASH, counted, reason
from zoo.summary import section
from zoo.totals import exceptions, rules_planted, shames, total

ALARM = {"rule": "BN103", "severity": "error", "layer": "bn1", "message": "virgin"}


def artifact(**fields: Any) -> dict[str, Any]:
    return {"seconds": 0.01, "layers": 3, "crash": "", "false_alarms": [], **fields}


def planted(found: bool = True, located: bool = True) -> dict[str, Any]:
    return artifact(planted="NaN", rule="BN106", where=["bn2"], found=found, located=located)


def record(name: str = "timm/a", **artifacts: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "task": "state-dict", "artifacts": artifacts}


def test_a_clean_zoo_has_nothing_to_be_ashamed_of() -> None:
    records = [record(fresh=artifact(), faulty=planted()), {**record("timm/b"), "exception": "too large"}]
    totals = total(records)
    assert (totals.architectures, totals.audited, totals.artifacts, totals.layers) == (2, 1, 2, 6)
    assert (totals.planted, totals.found, totals.located) == (1, 1, 1)
    assert not totals.failed
    assert shames(records) == []


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (record(fresh=artifact(false_alarms=[ALARM, ALARM])), "false error BN103 bn1 and 1 more: virgin"),
        (record(fresh=artifact(crash="BN101: KeyError")), "crash: BN101: KeyError"),
        (record(fresh=artifact(unseen=["bn7"])), "1 batch norms not listed, first bn7"),
        (record(faulty=planted(found=False, located=False)), "missed: NaN (BN106) in bn2"),
        (record(faulty=planted(located=False)), "not located: NaN (BN106) in bn2"),
        ({**record(), "broke": "KeyError: 3", "in_bnaudit": True}, "crash: KeyError: 3"),
    ],
)
def test_each_kind_of_shame_fails_and_is_a_line(broken: dict[str, Any], told: str) -> None:
    assert total([broken]).failed
    (line,) = shames([broken])
    assert line.endswith(told)
    assert line.startswith("timm/a (state-dict")


def test_times_are_median_ninth_decile_and_largest() -> None:
    records = [record(fresh=artifact(seconds=float(second))) for second in range(1, 12)]
    assert total(records).seconds == (6.0, 10.0, 11.0)
    assert total([]).seconds == (0.0, 0.0, 0.0)


def test_the_section_has_a_row_per_carrier_and_counts_what_was_not_audited() -> None:
    records = [
        record(fresh=artifact(), faulty=planted()),
        {**record(fresh=artifact(false_alarms=[ALARM])), "task": "onnx"},
        {**record("timm/b"), "exception": "larger than the bound of 40 M parameters"},
    ]
    versions = dict.fromkeys(("bnaudit", "torch", "torchvision", "timm", "python"), "9")
    lines = section(records, versions, date(2026, 12, 1), 2).splitlines()
    rows = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith(("state-dict", "onnx", "live", "all"))
    }
    assert rows["state-dict"] == ["1", "2", "6", "0", "0", "1", "1", "1"]
    assert rows["onnx"] == ["1", "1", "3", "1", "0", "0", "0", "0"]
    assert rows["live"] == ["0"] * 8
    assert rows["all"] == ["1", "3", "9", "1", "0", "1", "1", "1"]
    assert "    1 × larger than the bound of 40 M parameters" in lines
    assert lines[-1].startswith("2026-12-01 · Python 9, 2 cores · bnaudit 9")


def test_tasks_are_counted_apart() -> None:
    records = [record(fresh=artifact()), {**record(trained=artifact()), "task": "onnx"}]
    assert total(records, {"onnx"}).artifacts == 1
    assert total(records).artifacts == 2


def test_rules_count_what_was_planted_found_and_located() -> None:
    records = [record(faulty=planted()), record(faulty=planted(located=False)), record(faulty=planted(False, False))]
    assert rules_planted(records) == {"BN106": (3, 2, 1)}


def test_a_reason_is_named_and_only_a_failure_in_bnaudit_is_a_crash() -> None:
    assert reason({"artifacts": {}}) == ""
    assert reason({"exception": "larger than the bound"}) == "larger than the bound"
    assert reason({"killed": "slower than the limit of 300 seconds"}) == "slower than the limit of 300 seconds"
    assert reason({"broke": "KeyError: 1", "in_bnaudit": True}) == CRASH
    assert "cannot build or run it: KeyError" in reason({"broke": "KeyError: 1", "in_bnaudit": False})
    assert "torch cannot write it" in reason({"not_written": "scripted: E"})


def test_like_reasons_go_together_the_largest_class_first_and_crashes_are_no_exception() -> None:
    records = [
        {"name": "a", "task": "onnx", "not_written": "scripted: NotSupported 'foo'"},
        {"name": "b", "task": "onnx", "killed": "slower"},
        {"name": "c", "task": "onnx", "not_written": "scripted: NotSupported 'bar'"},
        {"name": "d", "task": "onnx", "broke": "E", "in_bnaudit": True},
    ]
    assert next(iter(counted(records).values())) == ["a", "c"]
    assert ["b"] in exceptions(records).values()
    assert CRASH not in exceptions(records)
