from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import xmlschema
from hypothesis import given, settings
from report_endings import NAMES, RULES, audit, endings, many_layers
from strategies import descriptions

from bnaudit.auditing import conclude
from bnaudit.description import Description
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.junit import RENDERER
from bnaudit.results import Audit, Question, Report, Severity, Unaudited
from bnaudit.settings import Settings

SCHEMA = xmlschema.XMLSchema10(str(Path(__file__).parents[1] / "schemas" / "junit-10.xsd"))
ENDINGS = endings()


def suites(report: Report) -> ET.Element:
    text = RENDERER.render(report, View())
    SCHEMA.validate(text)
    root = ET.fromstring(text.encode())
    for suite in root:
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[attribute]) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    for total in ("tests", "failures", "errors"):
        assert int(root.attrib[total]) == sum(int(suite.attrib[total]) for suite in root)
    return root


def case(report: Report, name: str) -> ET.Element:
    (found,) = (each for each in suites(report).iter("testcase") if each.attrib["name"].startswith(name))
    return found


def ending(element: ET.Element) -> str:
    tags = [child.tag for child in element if child.tag != "system-out"]
    assert len(tags) <= 1
    return tags[0] if tags else "passed"


def not_passed(report: Report) -> int:
    root = suites(report)
    return int(root.attrib["failures"]) + int(root.attrib["errors"])


def test_the_schema_refuses_what_it_should() -> None:
    text = RENDERER.render(ENDINGS["findings"], View())
    for spoiled in (text.replace(" failures=", " fails="), text.replace("<failure", "<fault"), text.replace("</", "<")):
        with pytest.raises((xmlschema.XMLSchemaException, ET.ParseError)):
            SCHEMA.validate(spoiled)


@pytest.mark.parametrize("name", ENDINGS)
def test_whatever_keeps_a_report_from_passing_is_a_failure_or_an_error(name: str) -> None:
    report = ENDINGS[name]
    assert (not_passed(report) > 0) == (replace(report, exit_zero=False).exit_code() != 0)


@given(subject=descriptions())
@settings(max_examples=30)
def test_any_description_is_valid(subject: Description) -> None:
    found = conclude(subject, Settings(fail_on=Severity.WARNING, require=(Question.BUFFERS,)), RULES)
    report = Report(version="0.1.0", audits=(found,), rules=NAMES, gate=True)
    assert (not_passed(report) > 0) >= (report.exit_code() != 0)


def test_reports_of_the_contract_are_valid(
    make_report: Callable[..., Report], healthy: Audit, faulty: Audit, unreadable: Unaudited
) -> None:
    for report in (make_report(), make_report(healthy), make_report(faulty, faulty, unaudited=(unreadable,))):
        suites(report)


def test_one_case_for_each_verdict_and_rule() -> None:
    (suite,) = suites(ENDINGS["healthy"])
    assert suite.attrib["name"] == "model.pt"
    names = [each.attrib["name"] for each in suite]
    assert len(names) == len(set(names)) == 5 + len(RULES)
    assert sum(name.startswith("verdict ") for name in names) == 5
    assert all(any(name.startswith(f"{rule.id} {rule.name}") for name in names) for rule in RULES)


def test_a_finding_at_the_threshold_fails_with_the_words_of_the_terminal() -> None:
    found = case(ENDINGS["findings"], "BN107")
    failure = found[0]
    assert failure.tag == "failure" and failure.attrib["type"] == "error"
    assert "bn{2,3} ×2  lowest running variance below 0" in failure.attrib["message"]
    assert failure.text is not None and "→ " in failure.text and "[-1, limit -1e-05]" in failure.text
    assert ending(case(ENDINGS["findings"], "BN106")) == "passed"


def test_a_finding_below_the_threshold_passes_and_is_shown() -> None:
    (below,) = ENDINGS["findings"].audits
    notes = tuple(replace(each, severity=Severity.NOTE, fails=False) for each in below.findings)
    found = case(replace(ENDINGS["findings"], audits=(replace(below, findings=notes),)), "BN107")
    assert ending(found) == "passed" and "lowest running variance" in (found.findtext("system-out") or "")


def test_accepted_findings_are_skipped_with_their_reason_and_expired_ones_fail() -> None:
    known = case(ENDINGS["accepted"], "BN107")
    assert (
        ending(known) == "skipped" and "accepted until 2030-01-31 (retrained in spring)" in known[0].attrib["message"]
    )
    back = case(ENDINGS["expired"], "BN107")
    assert ending(back) == "failure" and "was accepted until 2020-01-31" in (back[0].text or "")
    meant = case(ENDINGS["intended"], "BN107")
    assert ending(meant) == "passed" and "intended" in (meant.findtext("system-out") or "")


def test_undecided_verdicts_are_skipped_unless_they_are_required() -> None:
    asked = case(ENDINGS["required"], "verdict neighbours")
    assert ending(asked) == "failure" and "required and not checked" in asked[0].attrib["message"]
    free = case(ENDINGS["required"], "verdict train-eval-gap")
    assert ending(free) == "skipped" and "--model" in free[0].attrib["message"]
    assert ending(case(ENDINGS["required"], "verdict buffers")) == "passed"
    assert ending(case(ENDINGS["findings"], "verdict buffers")) == "failure"


def test_checks_that_broke_or_did_not_run_are_cases() -> None:
    assert ending(case(ENDINGS["broken"], "BN199")) == "error"
    assert ending(case(ENDINGS["broken"], "running the model")) == "error"
    waiting = case(ENDINGS["broken"], "BN301")
    assert ending(waiting) == "skipped" and "a run of the model" in waiting[0].attrib["message"]
    assert ending(case(ENDINGS["could not run"], "run of the model")) == "error"


def test_files_that_were_not_audited_and_settings_that_fit_nothing_are_cases() -> None:
    assert ending(case(ENDINGS["unread"], "broken.pt")) == "error"
    assert ending(case(ENDINGS["unread"], "net.tflite")) == "skipped"
    assert ending(case(ENDINGS["unread in a gate"], "net.tflite")) == "failure"
    assert ending(case(ENDINGS["unmatched"], "bnaudit.toml")) == "error"
    assert ending(case(ENDINGS["unmatched"], ".bnaudit-baseline.json")) == "skipped"
    assert ending(case(ENDINGS["interrupted"], "interrupted")) == "error"
    assert ending(case(ENDINGS["nothing"], "something was audited")) == "error"


def test_a_rule_that_an_artifact_was_not_checked_with_is_no_case_that_passes() -> None:
    some = replace(audit("bn2"), selected=("BN107",))
    names = [
        each.attrib["name"] for each in suites(Report(version="0.1.0", audits=(some,), rules=NAMES)).iter("testcase")
    ]
    assert [name for name in names if name.startswith("BN1")] == ["BN107 negative-variance"]


def test_time_is_what_the_run_took() -> None:
    root = suites(ENDINGS["measured"])
    assert root.attrib["time"] == root[0].attrib["time"] == "1.250"


def test_characters_that_xml_has_not_are_shown_as_escapes() -> None:
    text = RENDERER.render(Report(version="0", audits=(audit("bn\x00\x1b\ufffe\ud800]]>&<x>\n"),)), View())
    SCHEMA.validate(text)
    assert r"bn\x00\x1b\ufffe\ud800]]&gt;&amp;&lt;x&gt;\n" in text


def test_the_same_finding_on_many_layers_is_one_line() -> None:
    failure = case(many_layers(200), "BN107")[0]
    assert "blocks.{0..199}.bn ×200" in failure.attrib["message"] and (failure.text or "").count("\n") == 2


def test_a_verdict_that_failed_and_is_not_required_fails_no_case_of_a_gate_that_passes() -> None:
    (found,) = ENDINGS["findings"].audits
    lenient = replace(found, fail_on=Severity.ERROR, findings=())
    report = Report(version="0.1.0", audits=(lenient,), rules=NAMES, gate=True)
    assert (report.exit_code(), not_passed(report)) == (0, 0)
    said = case(report, "verdict buffers")
    assert ending(said) == "skipped" and "failed: " in said[0].attrib["message"]
    asked = replace(report, audits=(replace(lenient, required=(Question.BUFFERS,)),))
    assert ending(case(asked, "verdict buffers")) == "failure"
