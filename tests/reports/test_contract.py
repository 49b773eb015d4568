"""What every report format owes, whoever writes it: all of them are found by looking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import batch_norm, description, part
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import plain
from strategies import descriptions

from bnaudit.auditing import conclude
from bnaudit.description import Description, Gap
from bnaudit.errors import UsageError
from bnaudit.plugins import names
from bnaudit.records import replace
from bnaudit.reports import Renderer, View, renderer
from bnaudit.results import Audit, Failed, Report, Skipped, Unaudited
from bnaudit.rules import rules
from bnaudit.settings import Settings

Make = Callable[..., Report]
RENDERERS = tuple(renderer(name) for name in names("bnaudit.reports"))
RULES = tuple(rules())
VIEWS = (View(), View(width=40, color=True), View(width=200, in_full=True, show_accepted=True))

CONTROLS = "\x1b[2J\r\n\x07\x08\x7f\x85\x9b\u200f\u2028\u202e\u2066\ufeff\udc9b"
"""What clears a screen, rings, moves the cursor, ends a line or turns the direction of writing."""

pytestmark = pytest.mark.filterwarnings("error")
every_renderer = pytest.mark.parametrize("renderer", RENDERERS, ids=[renderer.name for renderer in RENDERERS])


def texts(renderer: Renderer, report: Report) -> list[str]:
    return [renderer.render(report, view) for view in VIEWS]


@pytest.fixture
def every_report(make_report: Make, healthy: Audit, faulty: Audit, unreadable: Unaudited) -> list[Report]:
    """Nothing at all, one of a kind, and all together with what did not run."""
    known = Unaudited(path="net.tflite", why="a TensorFlow Lite model is not audited", error=False)
    broken = Failed(rule="BN199", name="broken-rule", error="ZeroDivisionError: division by zero at bn199.py:7")
    needing = Skipped(rule="BN301", name="batch-neighbours", needs="a run of the model")
    base = conclude(description(part([batch_norm()])), Settings(), [])
    unlucky = replace(base, failed=(broken,), skipped=(needing,))
    return [
        make_report(),
        make_report(healthy),
        make_report(faulty),
        make_report(unaudited=(unreadable,)),
        make_report(unlucky),
        make_report(healthy, faulty, unlucky, unaudited=(unreadable, known), other_files=3, rules={"BN101": "x"}),
    ]


@every_renderer
def test_its_name_is_its_files_and_its_ending_is_well_formed(renderer: Renderer) -> None:
    assert renderer.name in names("bnaudit.reports")
    assert renderer.suffix.startswith(".") and renderer.suffix == renderer.suffix.lower()


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="json"):
        renderer("pdf")


@every_renderer
def test_any_report_becomes_text_that_ends_its_last_line(renderer: Renderer, every_report: list[Report]) -> None:
    for report in every_report:
        for text in texts(renderer, report):
            about_nothing = renderer.stream is not None and not report.audits and not report.unaudited
            assert text.strip() or about_nothing, "only what is a text for each artifact may be empty"
            assert (text == "" and about_nothing) or (text.endswith("\n") and not text.endswith("\n\n"))


@every_renderer
def test_rendering_twice_gives_the_same_text_and_changes_nothing(
    renderer: Renderer, every_report: list[Report]
) -> None:
    for report in every_report:
        before = plain(report)
        assert texts(renderer, report) == texts(renderer, report)
        assert plain(report) == before


@every_renderer
def test_it_names_what_was_audited_what_was_not_and_every_rule_that_spoke(
    renderer: Renderer, make_report: Make, faulty: Audit, unreadable: Unaudited
) -> None:
    report = make_report(faulty, unaudited=(unreadable,))
    for text in texts(renderer, report):
        assert "model.pt" in text and "broken.pt" in text and "is truncated" in text
        assert all(finding.rule in text for finding in faulty.findings)


@every_renderer
def test_a_check_that_failed_or_did_not_run_is_never_silent(renderer: Renderer, every_report: list[Report]) -> None:
    for text in texts(renderer, every_report[4]):
        assert "BN199" in text and "ZeroDivisionError" in text
        assert "BN301" in text


@every_renderer
def test_no_name_from_a_file_reaches_a_terminal_as_a_command(renderer: Renderer, make_report: Make) -> None:
    named = part([batch_norm(f"bn{CONTROLS}", var=None)], name=f"part{CONTROLS}")
    gap = Gap(where=f"data{CONTROLS}", why=f"why{CONTROLS}")
    audit = conclude(description(named, gaps=(gap,), remarks=(CONTROLS,)), Settings(), RULES)
    unread = Unaudited(path=f"a{CONTROLS}.pt", why=f"a{CONTROLS}.pt is empty", error=True)
    for text in texts(renderer, make_report(audit, audit, unaudited=(unread,))):
        assert "\x1b[2J" not in text
        assert not set(text) & set(CONTROLS) - set("\x1b\n[2J")


@every_renderer
@given(subject=descriptions(), view=st.builds(View, width=st.integers(40, 120), color=st.booleans()))
@settings(max_examples=40)
def test_any_conclusion_becomes_text(renderer: Renderer, subject: Description, view: View) -> None:
    audit = conclude(subject, Settings(), RULES)
    text = renderer.render(Report(version="0", audits=(audit,)), view)
    assert text.endswith("\n")
    # What stdout's encoding lacks is escaped when it is written; see bnaudit/output.py.
    assert text.encode("utf-8", "backslashreplace")


@every_renderer
def test_all_samples_at_once(renderer: Renderer, samples: Report) -> None:
    text = renderer.render(samples, View(width=200))
    assert all(Path(audit.artifact.path).name in text for audit in samples.audits)
