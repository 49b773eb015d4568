from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from bnaudit import __version__
from bnaudit.artifact_objects import HoldsFor, artifact_line
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.json import RENDERER as JSON
from bnaudit.reports.jsonl import RENDERER
from bnaudit.results import Acceptance, Audit, Question, Report, Severity, Unaudited

Make = Callable[..., Report]
LIMITS = {"BN404": {"mean_shift": 0.4}, "BN403": {"max_gap": float("inf")}}


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(files("bnaudit.reports").joinpath("artifact-1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def written(report: Report) -> list[dict[str, Any]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = RENDERER.render(report, View())
    assert text == "" or text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.split("\n")[:-1]]


def test_each_artifact_is_a_line_in_the_order_of_the_report(
    make_report: Make, healthy: Audit, faulty: Audit, unreadable: Unaudited, validator: Any
) -> None:
    known = Unaudited(path="net.tflite", why="a TensorFlow Lite model is not audited", error=False)
    lines = written(make_report(healthy, faulty, unaudited=(unreadable, known)))
    for line in lines:
        validator.validate(line)
    assert [line["path"] for line in lines] == ["model.pt", "model.pt", "broken.pt", "net.tflite"]
    assert [line["exit_code"] for line in lines] == [0, 1, 2, 3]
    assert [line["audited"] for line in lines] == [True, True, False, False]
    assert [line["error"] for line in lines] == [False, False, True, False]
    assert lines[2]["reason"] == "broken.pt is truncated: copy it again"
    assert {line["version"] for line in lines} == {__version__}
    assert written(make_report()) == []


def test_findings_and_verdicts_are_those_of_the_json_report(make_report: Make, faulty: Audit) -> None:
    acceptance = Acceptance(source="bnaudit.toml: accept[0]", rule="BN1", reason="known", until="2027-01-31")
    accepted = replace(faulty.findings[0], acceptance=acceptance)
    report = make_report(
        replace(faulty, findings=(accepted, *faulty.findings[1:]), required=(Question.BUFFERS,), limits=LIMITS)
    )
    (line,) = written(report)
    (whole,) = json.loads(JSON.render(report, View()))["artifacts"]
    same = (
        "path",
        "exit_code",
        "format",
        "size",
        "fail_on",
        "required",
        "limits",
        "looked",
        "verdicts",
        "findings",
        "failed",
        "run_failed",
    )
    assert [line[field] for field in same] == [whole[field] for field in same]
    assert line["unread_parts"] == len(whole["gaps"]) == 1
    assert line["skipped_rules"] == [skipped["rule"] for skipped in whole["skipped"]]


def test_every_sample_fits_the_schema(samples: Report, validator: Any) -> None:
    lines = written(samples)
    assert len(lines) == len(samples.audits) + len(samples.unaudited) > 5
    for line in lines:
        validator.validate(line)
        assert line["holds_for"] is None


def test_what_a_line_holds_for_is_written_with_it(healthy: Audit, validator: Any) -> None:
    state = HoldsFor(size=12, mtime_ns=1_700_000_000_123_456_789, settings="0" * 32)
    line = json.loads(artifact_line(healthy, state))
    validator.validate(line)
    expected = {"size": 12, "mtime_ns": 1_700_000_000_123_456_789, "folder": "", "settings": "0" * 32}
    assert line["holds_for"] == expected


def test_no_name_ends_a_line(make_report: Make) -> None:
    hostile = "a\n\r\u2028\u2029\x85\x0b\udcff.pt"
    text = RENDERER.render(make_report(unaudited=(Unaudited(path=hostile, why="it\nis", error=True),)), View())
    assert len(text.splitlines()) == 1
    assert json.loads(text)["path"] == hostile
    text.encode("utf-8")


def test_the_schema_refuses_what_it_should(faulty: Audit, unreadable: Unaudited, validator: Any) -> None:
    for entry, spoil in (
        (faulty, {"schema": "bnaudit.artifact/2"}),
        (faulty, {"exit_code": 7}),
        (faulty, {"verdicts": []}),
        (faulty, {"reason": "why"}),
        (faulty, {"more": 1}),
        (unreadable, {"exit_code": 0}),
        (unreadable, {"holds_for": {"size": 1}}),
    ):
        line = json.loads(artifact_line(entry))
        validator.validate(line)
        assert not validator.is_valid({**line, **spoil}), spoil
        if set(spoil) <= set(line):
            assert not validator.is_valid({field: line[field] for field in line if field not in spoil}), spoil


def test_severity_and_threshold_are_words(make_report: Make, faulty: Audit) -> None:
    (line,) = written(make_report(replace(faulty, fail_on=Severity.NOTE)))
    assert line["fail_on"] == "note"
    assert {finding["severity"] for finding in line["findings"]} == {"error", "warning", "note"}
