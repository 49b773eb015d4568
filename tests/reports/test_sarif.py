from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from hypothesis import given, settings
from report_endings import NAMES, RULES, accepted, audit, endings, many_layers
from strategies import descriptions

from bnaudit.auditing import conclude
from bnaudit.description import Description
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports import sarif as sarif_report
from bnaudit.reports.sarif import MOST_BYTES, MOST_RESULTS, RENDERER
from bnaudit.results import Audit, Report, Unaudited
from bnaudit.settings import Settings

SCHEMA = json.loads((Path(__file__).parents[1] / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
ENDINGS = endings()


def run_of(report: Report) -> dict[str, Any]:
    document = json.loads(RENDERER.render(report, View()))
    VALIDATOR.validate(document)
    (run,) = document["runs"]
    assert document["$schema"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/")
    return dict(run)


def texts(notifications: list[dict[str, Any]]) -> list[str]:
    return [each["message"]["text"] for each in notifications]


def test_the_schema_is_the_official_one_and_refuses_what_it_should() -> None:
    jsonschema.Draft4Validator.check_schema(SCHEMA)
    document = json.loads(RENDERER.render(ENDINGS["findings"], View()))
    for spoil in (
        lambda d: d.update(version="2.0.0"),
        lambda d: d["runs"][0]["results"][0].update(level="fatal"),
        lambda d: d["runs"][0]["results"][0].update(unknown=1),
        lambda d: d["runs"][0]["tool"]["driver"].pop("name"),
        lambda d: d["runs"][0]["invocations"][0].pop("executionSuccessful"),
    ):
        spoiled = json.loads(json.dumps(document))
        spoil(spoiled)
        assert not VALIDATOR.is_valid(spoiled)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_is_valid_and_says_how_it_ended(ending: str) -> None:
    report = ENDINGS[ending]
    run = run_of(report)
    (invocation,) = run["invocations"]
    assert invocation["exitCode"] == report.exit_code()
    assert invocation["executionSuccessful"] == (report.exit_code() not in (2, 130))
    if report.exit_code() in (2, 3, 130):
        said = invocation["toolExecutionNotifications"] + invocation["toolConfigurationNotifications"]
        assert any(each["level"] == "error" for each in said)


@given(subject=descriptions())
@settings(max_examples=30)
def test_any_description_is_valid(subject: Description) -> None:
    found = conclude(subject, Settings(), RULES)
    run_of(Report(version="0.1.0", audits=(found, found), rules=NAMES))


def test_reports_of_the_contract_are_valid(
    make_report: Callable[..., Report], healthy: Audit, faulty: Audit, unreadable: Unaudited
) -> None:
    for report in (make_report(), make_report(healthy), make_report(faulty, faulty, unaudited=(unreadable,))):
        run_of(report)


def test_each_rule_brings_its_page_and_what_code_scanning_sorts_by() -> None:
    described = {rule["id"]: rule for rule in run_of(ENDINGS["healthy"])["tool"]["driver"]["rules"]}
    assert list(described) == sorted(NAMES)
    for rule in RULES:
        entry = described[rule.id]
        assert entry["name"] == rule.name and entry["shortDescription"]["text"] == rule.summary
        assert entry["help"]["markdown"] == entry["help"]["text"] and "## How to fix" in entry["help"]["markdown"]
        assert 40 < len(entry["fullDescription"]["text"]) <= 1024 and len(rule.summary) <= 1024
        assert entry["defaultConfiguration"]["level"] == rule.severity.label
        assert entry["properties"]["problem.severity"] in ("error", "warning", "recommendation")
        assert entry["properties"]["precision"] in ("very-high", "high", "medium", "low")
        assert 1 <= len(entry["properties"]["tags"]) <= 20
        assert not {"helpUri"} & set(entry)
    assert "informationUri" not in run_of(ENDINGS["healthy"])["tool"]["driver"]


def test_a_result_says_the_layer_the_number_the_limit_and_what_to_do() -> None:
    run = run_of(ENDINGS["findings"])
    first, second = run["results"]
    assert first["ruleId"] == "BN107" == run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"]
    assert first["level"] == "error" and first["kind"] == "fail" and "suppressions" not in first
    text = first["message"]["text"]
    assert text.startswith("bn2: ") and "-1, limit -1e-05" in text and "update_bn" in text
    (place,) = first["locations"]
    assert place["logicalLocations"] == [{"name": "bn2", "fullyQualifiedName": "bn2", "kind": "member"}]
    assert place["physicalLocation"]["region"] == {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "model.pt"
    assert first["partialFingerprints"] != second["partialFingerprints"]


def test_layers_of_a_part_are_named_with_it() -> None:
    found = audit("stage.0.bn")
    inside = replace(found, findings=tuple(replace(each, part="model_ema") for each in found.findings))
    (result,) = run_of(Report(version="0.1.0", audits=(inside,)))["results"]
    (logical,) = result["locations"][0]["logicalLocations"]
    assert logical == {"name": "bn", "fullyQualifiedName": "model_ema/stage.0.bn", "kind": "member"}


def test_fingerprints_are_unique_and_survive_retraining_and_other_findings() -> None:
    def prints(report: Report) -> list[str]:
        return [each["partialFingerprints"]["bnauditFingerprint/v1"] for each in run_of(report)["results"]]

    two = Report(version="0.1.0", audits=(audit("bn2", "bn3"), audit("bn2", path="other.pt")))
    assert len(set(prints(two))) == 3
    retrained = audit("bn2", "bn3")
    changed = replace(retrained, findings=tuple(replace(f, value=-77.0, message="worse") for f in retrained.findings))
    assert prints(Report(version="9.9.9", audits=(changed,))) == prints(two)[:2]
    assert prints(Report(version="0.1.0", audits=(audit("bn3"),))) == [prints(two)[1]]


def test_the_same_fingerprint_twice_in_one_artifact_is_told_apart() -> None:
    found = audit("bn2")
    (finding,) = found.findings
    (one, two) = run_of(Report(version="0", audits=(replace(found, findings=(finding, finding)),)))["results"]
    assert one["partialFingerprints"] != two["partialFingerprints"]


def test_accepted_and_intended_findings_are_suppressed_and_expired_ones_are_not() -> None:
    (known,) = run_of(ENDINGS["accepted"])["results"]
    assert known["level"] == "error"
    assert known["suppressions"] == [
        {
            "kind": "external",
            "status": "accepted",
            "justification": "retrained in spring",
            "properties": {"source": "bnaudit.toml: accept[0]", "until": "2030-01-31"},
        }
    ]
    (meant,) = run_of(ENDINGS["intended"])["results"]
    assert meant["level"] == "note" and "intended" in meant["suppressions"][0]["justification"]
    (back,) = run_of(ENDINGS["expired"])["results"]
    assert "suppressions" not in back and "accepted until 2020-01-31" in back["message"]["text"]


def test_open_findings_come_before_accepted_ones() -> None:
    mixed = audit("bn2", "bn3", "bn4", accept=(accepted(layer="bn[23]"),))
    found = run_of(Report(version="0.1.0", audits=(mixed,)))["results"]
    assert ["suppressions" in each for each in found] == [False, True, True]


def test_verdicts_are_properties_and_never_alerts() -> None:
    run = run_of(ENDINGS["required"])
    assert run["results"] == []
    (stated,) = run["properties"]["audits"]
    assert stated["verdicts"]["buffers"]["outcome"] == "passed" and stated["required"] == ["buffers", "neighbours"]
    assert any("neighbours is required and not checked" in text for text in _executed(run))


def _executed(run: dict[str, Any]) -> list[str]:
    return texts(run["invocations"][0]["toolExecutionNotifications"])


def test_what_broke_or_was_not_read_is_a_notification() -> None:
    run = run_of(ENDINGS["broken"])
    broken = next(n for n in run["invocations"][0]["toolExecutionNotifications"] if "BN199" in n["message"]["text"])
    assert broken["level"] == "error" and broken["associatedRule"]["id"] == "BN199"
    configured = texts(run["invocations"][0]["toolConfigurationNotifications"])
    assert any("BN301 did not run in 1 of 1 artifact" in text for text in configured)
    unread = run_of(ENDINGS["unread"])
    assert any("is truncated" in text for text in _executed(unread))
    assert any("data/7" in text for text in _executed(run_of(ENDINGS["gap"])))
    unmatched = run_of(ENDINGS["unmatched"])["invocations"][0]["toolConfigurationNotifications"]
    assert [each["level"] for each in unmatched if "matches" in each["descriptor"]["id"]] == ["error", "warning"]


def test_notifications_refer_to_descriptors_that_are_there() -> None:
    run = run_of(ENDINGS["all"])
    described = run["tool"]["driver"]["notifications"]
    invocation = run["invocations"][0]
    for each in invocation["toolExecutionNotifications"] + invocation["toolConfigurationNotifications"]:
        assert described[each["descriptor"]["index"]]["id"] == each["descriptor"]["id"]


@pytest.mark.parametrize(
    ("path", "expected", "based"),
    [
        ("models/a b#1%.pt", "models/a%20b%231%25.pt", True),
        ("./models/x.pt", "models/x.pt", True),
        ("a:b.pt", "a%3Ab.pt", True),
        ("../elsewhere/x.pt", "../elsewhere/x.pt", False),
        ("net.py:build", "net.py", True),
        ("層/模.pt", "%E5%B1%A4/%E6%A8%A1.pt", True),
    ],
)
def test_artifacts_are_relative_references(path: str, expected: str, based: bool) -> None:
    run = run_of(Report(version="0.1.0", audits=(audit("bn2", path=path),)))
    (artifact,) = run["artifacts"]
    (result,) = run["results"]
    where = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert where["uri"] == expected == artifact["location"]["uri"]
    assert (where.get("uriBaseId") == "%SRCROOT%") is based
    assert urlsplit(expected).scheme == ""


def test_the_length_of_a_file_that_was_not_audited_is_not_said_to_be_nothing() -> None:
    report = ENDINGS["unread"]
    lengths = {each["location"]["uri"]: each.get("length") for each in run_of(report)["artifacts"]}
    (sound,) = report.audits
    assert lengths == {"broken.pt": None, "net.tflite": None, "model.pt": sound.artifact.size}


def test_absolute_paths_are_kept_only_when_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "models" / "x y.pt"
    report = Report(version="0.1.0", audits=(audit("bn2", path=str(path)),))
    (outside,) = run_of(report)["artifacts"]
    assert outside["location"]["uri"].startswith("file:///")
    assert unquote(outside["location"]["uri"]).endswith(path.as_posix())
    monkeypatch.chdir(tmp_path)
    text = RENDERER.render(report, View())
    assert json.loads(text)["runs"][0]["artifacts"][0]["location"]["uri"] == "models/x%20y.pt"
    assert tmp_path.as_uri() not in text


def test_what_a_viewer_would_take_as_a_link_is_none() -> None:
    (result,) = run_of(Report(version="0.1.0", audits=(audit("bn[click](http://evil)"),)))["results"]
    assert r"\[click](http://evil)" in result["message"]["text"]


def test_more_results_than_github_takes_are_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (MOST_RESULTS, MOST_BYTES) == (25_000, 10_000_000)
    monkeypatch.setattr(sarif_report, "MOST_RESULTS", 50)
    monkeypatch.setattr(sarif_report, "SHOWN_RESULTS", 20)
    run = run_of(many_layers(120))
    assert len(run["results"]) == 50
    assert "70 of 120 results are left out, the least bad ones: GitHub takes no more" in _executed(run)
    run = run_of(many_layers(30))
    assert len(run["results"]) == 30 and any("GitHub shows the worst 20" in text for text in _executed(run))


def test_a_document_that_would_not_compress_enough_holds_fewer_results(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(0)
    names = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=800)) for _ in range(200)]
    report = Report(version="0.1.0", audits=(audit(*names),))
    whole = len(zlib.compress(RENDERER.render(report, View()).encode()))
    monkeypatch.setattr(sarif_report, "MOST_BYTES", whole // 2)
    text = RENDERER.render(report, View())
    assert len(zlib.compress(text.encode())) <= whole // 2
    run = run_of(report)
    assert 0 < len(run["results"]) < 200 and any("results are left out" in said for said in _executed(run))


def test_versions_that_are_not_semantic_are_not_said_to_be() -> None:
    driver = run_of(replace(ENDINGS["healthy"], version="0.1.0.dev3"))["tool"]["driver"]
    assert driver["version"] == "0.1.0.dev3" and "semanticVersion" not in driver
    assert run_of(ENDINGS["healthy"])["tool"]["driver"]["semanticVersion"] == "0.1.0"
