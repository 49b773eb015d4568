from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_endings import NAMES, RULES, audit, endings, many_layers
from strategies import descriptions

from bnaudit.auditing import conclude
from bnaudit.description import Description
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.github import RENDERER
from bnaudit.results import Audit, Report, Severity
from bnaudit.settings import Settings

ENDINGS = endings()
REGISTERED = {"error", "warning", "notice", "debug", "group", "endgroup", "add-mask", "add-path", "set-env"}
REGISTERED |= {
    "set-output",
    "save-state",
    "stop-commands",
    "echo",
    "add-matcher",
    "remove-matcher",
    "internal-set-repo-path",
}


class Command(NamedTuple):
    name: str
    properties: dict[str, str]
    message: str


def unescaped(text: str, *more: tuple[str, str]) -> str:
    for escape, sign in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
        text = text.replace(escape, sign)
    return text


def command(line: str) -> Command | None:
    """What the runner takes a line of output for, as actions/runner's ActionCommand reads it."""
    line = line.lstrip()
    if line.startswith("::") and "::" in line[2:]:
        head, _, data = line[2:].partition("::")
        name, _, rest = head.partition(" ")
        if name in REGISTERED:
            pairs = [piece.split("=", 1) for piece in rest.strip().split(",") if piece]
            properties = {pair[0]: unescaped(pair[1], ("%3A", ":"), ("%2C", ",")) for pair in pairs if len(pair) == 2}
            return Command(name, properties, unescaped(data))
    if "##[" in line and "]" in line.partition("##[")[2]:
        head, _, data = line.partition("##[")[2].partition("]")
        if head.partition(" ")[0] in REGISTERED:
            return Command(head.partition(" ")[0], {}, data)
    return None


def commands(report: Report, **view: object) -> list[Command]:
    """All of them; those around the log stand at its two ends."""
    lines = RENDERER.render(report, View(**view)).splitlines()
    assert lines[-1] == "::endgroup::"
    start = next(position for position, line in enumerate(lines) if line.startswith("::group::"))
    assert [each for line in lines[start + 1 : -1] if (each := command(line))] == []
    found = [command(line) for line in lines[:start]]
    assert all(each is not None and each.name in ("error", "warning", "notice") for each in found)
    return [each for each in found if each is not None]


def titles(report: Report, name: str) -> list[str]:
    return [each.properties["title"] for each in commands(report) if each.name == name]


def log(report: Report, **view: object) -> str:
    return RENDERER.render(report, View(**view)).partition("::group::")[2]


def test_a_group_of_findings_is_one_annotation_of_its_file() -> None:
    report = many_layers(200)
    (error,) = (each for each in commands(report) if each.name == "error")
    assert error.properties == {"title": "BN107 negative-variance", "file": "model.pt"}
    place, advice = error.message.split("\n")
    assert place.startswith("blocks.{0..199}.bn ×200  lowest running variance") and place.endswith("limit -1e-05]")
    assert advice.startswith("→ ")


def test_errors_come_first_then_warnings_then_notices() -> None:
    order = ["error", "warning", "notice"]
    for report in ENDINGS.values():
        names = [order.index(each.name) for each in commands(report)]
        assert names == sorted(names)


def test_no_more_annotations_of_a_level_than_github_shows_and_the_last_says_what_is_left(
    samples: Report,
) -> None:
    by_level = {name: titles(samples, name) for name in ("error", "warning", "notice")}
    assert all(len(found) <= 10 for found in by_level.values())
    assert len(by_level["error"]) == 10 and by_level["error"][-1].startswith("bnaudit: ")
    (last,) = (each for each in commands(samples) if each.properties["title"] == by_level["error"][-1])
    assert "more, see the log: BN" in last.message
    assert {finding.rule for finding in samples.findings} <= {word for word in log(samples).split() if word[:2] == "BN"}


def test_one_rule_in_many_artifacts_is_one_annotation_where_there_is_no_room() -> None:
    audits = tuple(audit("bn2", path=f"models/{number}.pt") for number in range(30))
    (error,) = (each for each in commands(Report(version="0", audits=audits)) if each.name == "error")
    assert "file" not in error.properties
    assert error.message.startswith("in 30 artifacts\nmodels/0.pt: bn2  ") and "\nand 25 more\n" in error.message


def test_what_else_keeps_a_report_from_passing_is_an_error() -> None:
    expected = {
        "nothing": "bnaudit: nothing checked",
        "required": "bnaudit: required not decided",
        "broken": "bnaudit: internal failure",
        "could not run": "bnaudit: not run",
        "unread": "bnaudit: not audited",
        "unread in a gate": "bnaudit: not audited",
        "unmatched": "bnaudit: matches nothing",
        "interrupted": "bnaudit: interrupted",
    }
    for ending, title in expected.items():
        assert title in titles(ENDINGS[ending], "error"), ending


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_report_that_does_not_pass_has_an_error_or_a_finding_at_its_threshold(ending: str) -> None:
    report = ENDINGS[ending]
    shown = {each.name for each in commands(report) if each.properties["title"] != "bnaudit"}  # that is the result
    wanted = {audit.fail_on.label.replace("note", "notice") for audit in report.audits} | {"error"}
    assert report.exit_code() == 0 or shown & wanted


def test_the_result_is_a_notice_and_accepted_findings_are_counted_in_it() -> None:
    notices = [each.message for each in commands(ENDINGS["accepted"]) if each.name == "notice"]
    assert notices == ["1 artifact: no findings, 1 accepted · exit 0: nothing at or above error"]
    assert not titles(ENDINGS["accepted"], "error")
    assert "retrained in spring" not in log(ENDINGS["accepted"])
    assert "retrained in spring" in log(ENDINGS["accepted"], show_accepted=True)
    (back,) = (each for each in commands(ENDINGS["expired"]) if each.name == "error")
    assert "was accepted until 2020-01-31" in back.message


def test_properties_and_messages_are_escaped_as_the_runner_reads_them() -> None:
    report = Report(version="0", audits=(audit("a%b:c,d::e", path="models/x,y:z%0A.pt"),))
    line = next(line for line in RENDERER.render(report, View()).splitlines() if line.startswith("::error"))
    assert "file=models/x%2Cy%3Az%250A.pt::" in line and "a%25b:c,d::e" in line
    (error,) = (each for each in commands(report) if each.name == "error")
    assert error.properties["file"] == "models/x,y:z%0A.pt" and error.message.startswith("a%b:c,d::e  ")


INJECTIONS = (
    "\n::set-output name=x::1",
    "::stop-commands::x",
    "\r::add-mask::s",
    "##[add-mask]s",
    "a##[stop-commands]x",
    "###[error]x",
    "\x85::error::x",
    "%0A::error::x",
    " ::error::x",
)


@given(
    name=st.one_of(st.sampled_from(INJECTIONS), st.text(max_size=8).map(lambda text: text + "##[error]x")),
    path=st.sampled_from(INJECTIONS),
)
@settings(max_examples=40)
def test_no_name_is_a_command(name: str, path: str) -> None:
    found: Audit = audit(name, path=path)
    notes = tuple(replace(each, message=name, advice=path, severity=Severity.NOTE) for each in found.findings)
    for report in (Report(version="0", audits=(found,)), Report(version="0", audits=(replace(found, findings=notes),))):
        commands(report, show_accepted=True)


@given(subject=descriptions())
@settings(max_examples=30)
def test_any_description_is_lines_of_commands(subject: Description) -> None:
    commands(Report(version="0", audits=(conclude(subject, Settings(), RULES),), rules=NAMES))
