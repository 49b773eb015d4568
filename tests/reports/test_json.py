from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from builders import batch_norm, description, part
from measured import measured

from bnaudit.auditing import conclude
from bnaudit.measurement import Production, Repeat, Shift, Swap
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.json import RENDERER
from bnaudit.results import Audit, Report, Severity, Unaudited
from bnaudit.settings import Settings

Make = Callable[..., Report]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(files("bnaudit.reports").joinpath("report-1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def document(report: Report, **view: Any) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    parsed: dict[str, Any] = json.loads(RENDERER.render(report, View(**view)), parse_constant=refuse)
    return parsed


def test_reports_fit_the_schema(
    make_report: Make, healthy: Audit, faulty: Audit, unreadable: Unaudited, validator: Any
) -> None:
    for report in (make_report(), make_report(healthy), make_report(healthy, faulty, unaudited=(unreadable,))):
        validator.validate(document(report))


def test_the_schema_refuses_what_it_should(make_report: Make, faulty: Audit, validator: Any) -> None:
    for spoil in (
        lambda d: d.update(schema="bnaudit.report/2"),
        lambda d: d["artifacts"][0]["findings"][0].pop("advice"),
        lambda d: d["artifacts"][0]["findings"][0].update(severity="fatal"),
        lambda d: d["artifacts"][0]["verdicts"].pop(),
    ):
        spoiled = document(make_report(faulty))
        spoil(spoiled)
        assert not validator.is_valid(spoiled)


def test_findings_are_objects_with_every_field(make_report: Make, faulty: Audit) -> None:
    found = document(make_report(faulty))["artifacts"][0]["findings"]
    wanted = {"rule", "name", "severity", "confidence", "artifact", "layer", "message", "value", "limit", "advice"}
    assert all(wanted | {"fingerprint"} <= set(finding) for finding in found)
    assert [finding["value"] for finding in found if finding["rule"] == "BN106"] == ["NaN"]


def test_the_exit_code_follows_the_threshold(make_report: Make, healthy: Audit, faulty: Audit) -> None:
    assert document(make_report(faulty))["exit_code"] == 1
    assert document(make_report(replace(faulty, findings=faulty.findings[-1:])))["exit_code"] == 0
    strict = replace(faulty, findings=faulty.findings[-1:], fail_on=Severity.NOTE)
    assert document(make_report(strict))["exit_code"] == 1
    assert document(make_report(replace(healthy, fail_on=Severity.NOTE)))["exit_code"] == 0
    assert document(make_report())["exit_code"] == 3


def test_what_a_run_showed_or_why_there_was_none_is_written(make_report: Make, healthy: Audit, validator: Any) -> None:
    shown = measured(
        Swap(other=Shift(exact=True), scaled=None),
        inputs="digits.npz, 29 of 360 samples",
        samples=29,
        forwards=7,
        extra_forwards=2,
    )
    asked = replace(healthy, not_run="ValueError at net.py:7", run_needs="--inputs", run_failed=True)
    written = document(make_report(replace(healthy, measured=shown), asked, interrupted=True))
    validator.validate(written)
    ran, failed = written["artifacts"]
    assert (ran["measured"]["forwards"], ran["measured"]["measurements"][0]["type"]) == (7, "swap")
    assert (ran["not_run"], ran["run_failed"]) == ("", False)
    assert failed["measured"] is None
    assert (failed["not_run"], failed["run_needs"]) == ("ValueError at net.py:7", "--inputs")
    assert failed["run_failed"] is True
    assert (written["interrupted"], written["exit_code"]) == (True, 130)


def test_a_report_of_version_1_without_the_fields_that_came_later_still_fits(
    make_report: Make, healthy: Audit, validator: Any
) -> None:
    exact = Shift(exact=True)
    shown = measured(Repeat(in_a_row=exact, restored=None, random=()), Production(shift=exact, form="torch.compile"))
    written = document(make_report(replace(healthy, measured=shown)))
    validator.validate(written)
    repeat, production = written["artifacts"][0]["measured"]["measurements"]
    del repeat["after_others"], production["rounding"]
    validator.validate(written)
    del production["form"]
    assert not validator.is_valid(written)


def test_what_is_intended_is_marked(make_report: Make, faulty: Audit, validator: Any) -> None:
    meant = replace(faulty.findings[0], intended=True)
    written = document(make_report(replace(faulty, findings=(meant, faulty.findings[1]))))
    validator.validate(written)
    assert [finding["intended"] for finding in written["artifacts"][0]["findings"]] == [True, False]


def test_every_sample_fits_the_schema_and_carries_all_that_was_described(samples: Report, validator: Any) -> None:
    written = document(samples)
    validator.validate(written)
    for audit, shown in zip(samples.audits, written["artifacts"], strict=True):
        parts = audit.description.parts
        assert [part["carrier"] for part in shown["parts"]] == [part.carrier.value for part in parts]
        assert [len(part["hidden"]) for part in shown["parts"]] == [len(part.hidden) for part in parts]
        assert [len(part["layers"]) for part in shown["parts"]] == [len(part.layers) for part in parts]
        assert {imported["name"] for imported in shown["imports"]} == {i.name for i in audit.description.imports}


def test_limits_of_the_settings_are_in_the_report(make_report: Make, validator: Any) -> None:
    own = Settings(limits={"BN404": {"mean_shift": 0.4}, "BN403": {"max_gap": math.inf}})
    audit = conclude(description(part([batch_norm()])), own, [])
    (found,) = document(make_report(audit))["artifacts"]
    validator.validate(document(make_report(audit)))
    assert found["limits"] == {"BN403": {"max_gap": "Infinity"}, "BN404": {"mean_shift": 0.4}}
    assert found["looked"] is True
