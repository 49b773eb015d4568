"""All reports on one audit say the same: result, counts, exit code and its meaning, what was not audited, why."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from builders import batch_norm, description, part
from html_reports import read
from report_endings import audit, endings

from bnaudit.auditing import conclude
from bnaudit.description import Gap
from bnaudit.plugins import names
from bnaudit.records import replace
from bnaudit.reports import View, renderer
from bnaudit.results import Audit, Confidence, Finding, Report, Severity, Unaudited
from bnaudit.settings import Settings
from bnaudit.terminal.exit_meaning import Result, meaning, result, total

ENDINGS = endings()
FOR_PEOPLE = ("terminal", "markdown", "github", "html")


def words(format: str, report: Report) -> str:
    """The text as it is read, on one line."""
    text = renderer(format).render(report, View(width=10_000, show_accepted=True))
    text = read(text).text if format == "html" else text.replace("`", "").replace("%0A", " ").replace("%3A", ":")
    return " ".join(text.split())


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("format", FOR_PEOPLE)
def test_counts_exit_code_and_meaning_are_the_same_for_people(ending: str, format: str) -> None:
    report = ENDINGS[ending]
    said = words(format, report).replace("exit code", "exit")
    assert f"{total(report)} · exit {report.exit_code()}: {meaning(report)}" in said


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_found_and_not_audited_is_in_every_report(ending: str) -> None:
    report = ENDINGS[ending]
    named = {finding.rule for finding in report.findings} | {entry.path for entry in report.unaudited}
    broken = {failed.error for each in report.audits for failed in each.failed}
    for format in names("bnaudit.reports"):
        said = words(format, report)
        assert not [name for name in named | broken if name not in said], format


@pytest.mark.parametrize("ending", ENDINGS)
def test_programs_read_the_same_numbers(ending: str) -> None:
    report = ENDINGS[ending]
    document = json.loads(renderer("json").render(report, View()))
    (run,) = json.loads(renderer("sarif").render(report, View()))["runs"]
    lines = [json.loads(line) for line in renderer("jsonl").render(report, View()).splitlines()]
    (invocation,) = run["invocations"]
    assert document["exit_code"] == invocation["exitCode"] == report.exit_code()
    found = [finding for each in document["artifacts"] for finding in each["findings"]]
    assert found == [finding for line in lines for finding in line["findings"]]
    assert len(found) == len(run["results"])
    excused = [each for each in found if each["accepted"] or each["intended"]]
    assert len(excused) == sum("suppressions" in each for each in run["results"])
    assert sorted(each["severity"] for each in found) == sorted(each["level"] for each in run["results"])
    verdicts = [(v["question"], v["outcome"]) for each in document["artifacts"] for v in each["verdicts"]]
    assert verdicts == [(v["question"], v["outcome"]) for line in lines for v in line["verdicts"]]
    stated = [each["verdicts"] for each in run["properties"]["audits"]]
    assert verdicts == [(name, verdict["outcome"]) for each in stated for name, verdict in each.items()]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_test_page_is_red_wherever_the_gate_does_not_pass(ending: str) -> None:
    report = ENDINGS[ending]
    root = ET.fromstring(renderer("junit").render(report, View()))
    red = int(root.attrib["failures"]) + int(root.attrib["errors"])
    assert red or report.exit_code() == 0


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_result_is_one_in_markdown_and_html(ending: str) -> None:
    report = ENDINGS[ending]
    heading = next(read(renderer("html").render(report, View())).all("h1")).text
    assert heading.split(" ", 1)[1].lower() == result(report).value
    assert renderer("markdown").render(report, View()).splitlines()[1] == f"## bnaudit: {result(report).value}"


def test_what_passes_for_information_only_is_no_pass() -> None:
    known = Unaudited(path="net.tflite", why="a TensorFlow Lite model is not audited", error=False)
    sound = audit()
    report = Report(version="0", audits=(sound,), unaudited=(known,), gate=True, exit_zero=True)
    assert (report.exit_code(), result(report)) == (0, Result.INFORMATION)
    assert "for information only" in meaning(report)
    assert result(replace(report, unaudited=())) is Result.PASSED
    assert result(replace(report, exit_zero=False)) is Result.UNDECIDED


def test_settings_that_fit_nothing_do_not_make_an_audit_incomplete() -> None:
    assert result(ENDINGS["unmatched"]) is Result.MISTYPED
    assert result(ENDINGS["broken"]) is result(ENDINGS["unread"]) is Result.INCOMPLETE


def test_an_accepted_error_that_no_verdict_speaks_of_is_no_alarm() -> None:
    (found,) = audit("bn2").findings
    loud = replace(found, rule="BN901", name="unsafe-pickle", question=None, message="loading it runs a program")
    quiet = replace(loud, acceptance=ENDINGS["accepted"].findings[0].acceptance)

    def opening(finding: Finding, format: str) -> str:
        report = Report(version="0", audits=(replace(audit(), findings=(finding,)),))
        text = renderer(format).render(report, View())
        return (read(text).text if format == "html" else text).lower().partition("buffers complete")[0]

    for format in ("terminal", "html"):
        assert "loading it runs a program" in opening(loud, format)
        assert "loading it runs a program" not in opening(quiet, format)


@pytest.mark.parametrize("format", FOR_PEOPLE)
def test_notes_are_counted_once_a_rule(format: str) -> None:
    layers = [batch_norm(f"bn{n}", counter=None) for n in range(3)]
    base = conclude(description(part(layers)), Settings(), [])
    (found,) = audit("bn2").findings
    notes = tuple(replace(found, severity=Severity.NOTE, rule="BN102", layer=f"bn{n}", advice=f"{n}") for n in range(3))
    said = words(format, Report(version="0", audits=(replace(base, findings=notes),) * 2))
    assert "1 note" in said and "6 notes" not in said and "3 notes" not in said


@pytest.mark.parametrize("format", ("terminal", "markdown", "html", "junit"))
def test_a_confidence_is_told_of_none_but_those_that_have_it(format: str) -> None:
    (found,) = audit("bn2").findings
    sure = replace(found, severity=Severity.WARNING)
    guess = replace(sure, layer="bn1", confidence=Confidence.MEDIUM)
    said = words(format, Report(version="0", audits=(replace(audit("bn2"), findings=(sure, guess)),)))
    assert said.count("medium confidence") == 1
    ordered = said.index("bn2", said.index("BN107")) < said.index("medium confidence")
    assert ordered or format == "html"


@pytest.mark.parametrize("format", FOR_PEOPLE)
def test_a_number_that_the_message_has_is_not_repeated(format: str) -> None:
    (found,) = audit("bn2").findings
    report = Report(
        version="0",
        audits=(replace(audit("bn2"), findings=(replace(found, message="off by 1.72 steps", value=1.72, limit=0.5),)),),
    )
    assert "limit 0.5" not in words(format, report)


@pytest.mark.parametrize("format", FOR_PEOPLE)
def test_files_that_are_no_models_are_counted(format: str) -> None:
    assert "1 other file: not a model" in words(format, replace(ENDINGS["healthy"], other_files=1))


@pytest.mark.parametrize("format", names("bnaudit.reports"))
def test_a_run_that_failed_is_told_once_and_what_waits_for_it_needs_one_that_works(format: str) -> None:
    failed: Audit = ENDINGS["could not run"].audits[0]
    said = words(format, Report(version="0", audits=(failed,)))
    assert "no module named net" in said
    assert "see below" not in said and "needs no module" not in said and "need no module" not in said


def unseen() -> Audit:
    """Of a file in which norm layers may be that could not be read."""
    return conclude(description(part([]), gaps=(Gap(where="data/7", why="sparse tensor"),)), Settings(), [])


@pytest.mark.parametrize("format", FOR_PEOPLE)
def test_that_one_artifact_was_not_looked_at_does_not_say_so_of_all(format: str) -> None:
    some, none = Report(version="0", audits=(audit(), unseen())), Report(version="0", audits=(unseen(),))
    assert (result(some), result(none)) == (Result.UNDECIDED, Result.UNCHECKED)
    assert "exit 3: nothing was checked in 1 of 2 artifacts" in words(format, some).replace("exit code", "exit")
    assert words(format, none).replace("exit code", "exit").count("exit 3: nothing was checked in") == 0


@pytest.mark.parametrize("format", ("terminal", "html"))
def test_no_norm_layers_is_said_where_there_are_none(format: str) -> None:
    empty = conclude(description(part([])), Settings(), [])
    passed_over = conclude(description(part([batch_norm("bn1")])), Settings(layers=("fc*",)), [])
    said = {"No norm layers.": empty, "No norm layers in what could be read.": unseen()}
    said["No norm layer has a name that was asked for."] = passed_over
    for text, found in said.items():
        assert text in words(format, Report(version="0", audits=(found,)))


def test_limits_of_the_settings_are_in_what_programs_read() -> None:
    limits = {"BN404": {"mean_shift": 0.4}}
    report = Report(version="0", audits=(replace(audit(), limits=limits), audit()))
    artifacts = json.loads(renderer("json").render(report, View()))["artifacts"]
    lines = [json.loads(line) for line in renderer("jsonl").render(report, View()).splitlines()]
    (run,) = json.loads(renderer("sarif").render(report, View()))["runs"]
    assert [each["limits"] for each in artifacts] == [each["limits"] for each in lines] == [limits, {}]
    assert [each.get("limits", {}) for each in run["properties"]["audits"]] == [limits, {}]
