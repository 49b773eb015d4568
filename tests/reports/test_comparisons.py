"""A comparison in every report format: what is held against what, the conclusion, the findings; whatever the names."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from builders import part
from compared import trained
from compared_reports import all_of_them, compared_audit, everything_moved, folded, run
from html_reports import read
from hypothesis import given, settings
from strategies import descriptions

from bnaudit.comparison import FoldCause, Reshaped
from bnaudit.description import Description
from bnaudit.plugins import names
from bnaudit.reports import View, renderer
from bnaudit.results import Audit, Report
from bnaudit.terminal.comparison_conclusion import conclusion

OUTCOMES = all_of_them()
FORMATS = tuple(names("bnaudit.reports"))
CONTROLS = "\x1b[2J\r\n\x07\x08\x7f\x85\x9b\u200f\u2028\u202e\u2066\ufeff\udc9b"
every_format = pytest.mark.parametrize("format", FORMATS)


def report(audit: Audit) -> Report:
    return Report(version="0.1.0", audits=(audit,))


def words(format: str, audit: Audit) -> str:
    """The text as it is read, on one line."""
    text = renderer(format).render(report(audit), View(width=10_000))
    if format == "html":
        text = read(text).text
    elif format == "junit":
        text = " ".join(
            [*ET.fromstring(text).itertext(), *(" ".join(each.attrib.values()) for each in ET.fromstring(text).iter())]
        )
    else:
        text = text.replace("`", "").replace("%0A", " ").replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
    return " ".join(text.split())


@every_format
@pytest.mark.parametrize("name", OUTCOMES)
def test_it_says_what_is_compared_with_what_and_to_what_end(format: str, name: str) -> None:
    audit = OUTCOMES[name]
    assert audit.comparison is not None
    said = words(format, audit)
    assert "trained.pt" in said and audit.artifact.path in said
    assert not [line for line in conclusion(audit.comparison) if line not in said]
    assert not [finding.rule for finding in audit.findings if finding.rule not in said]
    assert not [skipped.rule for skipped in audit.skipped if skipped.rule not in said]


@pytest.mark.parametrize("format", ["terminal", "markdown", "html"])
@pytest.mark.parametrize("name", OUTCOMES)
def test_pages_say_what_it_came_to_once_and_before_what_was_found(format: str, name: str) -> None:
    audit = OUTCOMES[name]
    assert audit.comparison is not None
    said = words(format, audit)
    for line in conclusion(audit.comparison):
        assert said.count(line) == 1
    later = [*(finding.name for finding in audit.findings), "needs --inputs x.npz", "ledger of"]
    end = said.index(conclusion(audit.comparison)[-1])
    assert not [each for each in later if each in said[:end]]


@pytest.mark.parametrize("format", ["terminal", "markdown", "github", "html"])
def test_it_has_no_verdicts_and_speaks_of_none(format: str) -> None:
    said = words(format, everything_moved()).lower()
    for claim in ("buffers complete", "eval mode holds", "train-eval-gap", "not checked"):
        assert claim not in said


@pytest.mark.parametrize("format", ["terminal", "markdown", "github", "html"])
def test_people_are_told_how_far_each_moved(format: str) -> None:
    audit = everything_moved()
    assert audit.comparison is not None
    furthest = max(audit.comparison.moves, key=lambda move: max(move.gain_change or 0, move.shift_change or 0))
    said = words(format, audit)
    assert furthest.layer in said and f"×{furthest.var_ratio:.3g}" in said
    assert "10×16" in said and "7×16" in said
    wrong = words(format, folded(FoldCause.EPSILON))
    assert "layer0.bn.conv" in wrong and "epsilon seen" in wrong


def test_programs_read_every_number() -> None:
    audit = everything_moved()
    assert audit.comparison is not None
    (artifact,) = json.loads(renderer("json").render(report(audit), View()))["artifacts"]
    found = artifact["comparison"]
    assert artifact["verdicts"] == []
    assert [move["mean_shift"] for move in found["moves"]] == [move.mean_shift for move in audit.comparison.moves]
    assert found["matching"]["pairs"][0] == {"subject": "layer0.bn", "baseline": "layer0.bn", "by": "name"}
    assert found["baseline"]["path"] == "trained.pt" and found["reshaped"][0]["shapes"] == [[10, 16], [7, 16]]
    (line,) = renderer("jsonl").render(report(audit), View()).splitlines()
    assert json.loads(line)["compared_with"]["conclusion"] == found["conclusion"]
    (sarif,) = json.loads(renderer("sarif").render(report(audit), View()))["runs"]
    assert sarif["properties"]["audits"][0]["comparedWith"] == "trained.pt"


def hostile() -> Audit:
    name = f"bn{CONTROLS}|<b>`*"
    layers = [trained(name, seed=1)], [trained(name, seed=2)]
    settings: dict[str, Any] = {
        "reshaped": (Reshaped(layer=name, baseline_layer=name, shapes=((1,), (2,))),),
        "remarks": (name,),
        "run": run(reference_in_eval=False, reference_why=name, parts_at=name, inputs=name, runners=(name, name)),
    }
    return compared_audit(part(layers[0], name=name), part(layers[1], name=name), path=f"{name}.pt", **settings)


@every_format
def test_no_name_reaches_a_terminal_as_a_command(format: str) -> None:
    for view in (View(), View(width=200, color=True, in_full=True)):
        text = renderer(format).render(report(hostile()), view)
        assert not set(text) & set(CONTROLS) - set("\x1b\n[2J")
        assert "\x1b[2J" not in text


@given(subject=descriptions(), baseline=descriptions())
@settings(max_examples=25)
def test_any_two_descriptions_become_text(subject: Description, baseline: Description) -> None:
    audit = compared_audit(*(next(iter(each.parts), part([])) for each in (subject, baseline)))
    for format in FORMATS:
        text = renderer(format).render(report(audit), View())
        assert text.endswith("\n") and text.encode("utf-8", "backslashreplace")


@every_format
def test_rendering_twice_gives_the_same_text(format: str) -> None:
    texts = {renderer(format).render(report(everything_moved()), View()) for _ in range(2)}
    assert len(texts) == 1
