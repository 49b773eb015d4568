from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from builders import batch_norm, description, part
from subjects import SAMPLES

import bnaudit
from bnaudit import notebook
from bnaudit.auditing import conclude
from bnaudit.reports import View
from bnaudit.reports.terminal import RENDERER
from bnaudit.results import Report, Unaudited
from bnaudit.rules import rules
from bnaudit.settings import Settings

HOSTILE = "bn</pre><script>alert(1)</script>&amp;\x1b[2J\u202e[red]"


class Elements(HTMLParser):
    """The tags with their attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(html: str) -> Elements:
    parser = Elements()
    parser.feed(html)
    parser.close()
    return parser


@pytest.fixture
def report() -> Report:
    """Hostile names everywhere: of a layer without its variance, of a part, of a file, in a remark."""
    named = part([batch_norm(HOSTILE, var=None), batch_norm("bn2")], name=HOSTILE)
    audit = conclude(description(named, remarks=(HOSTILE,)), Settings(), tuple(rules()))
    return Report(version="0", audits=(audit,), unaudited=(Unaudited(path=HOSTILE, why=HOSTILE, error=True),))


def test_it_is_one_element_of_nothing_but_styled_text(report: Report) -> None:
    html = report._repr_html_()
    found = elements(html)
    assert [tag for tag, _ in found.tags].count("pre") == 1
    assert {tag for tag, _ in found.tags} == {"pre", "span"}
    assert {name for _, attributes in found.tags for name in attributes} <= {"style", "class"}
    assert "url(" not in html and "http" not in html
    assert "\x1b" not in html and "\u202e" not in html


def test_it_says_what_the_terminal_says(report: Report) -> None:
    lines = elements(report._repr_html_()).text.rstrip("\n").splitlines()
    terminal = RENDERER.render(report, View(width=notebook.WIDTH)).splitlines()
    assert [line.rstrip() for line in lines] == terminal
    assert "<script>" in "".join(lines), "the name is shown, not obeyed"


def luminance(color: str) -> float:
    """Relative luminance of WCAG 2."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_its_colours_are_legible_on_light_and_on_dark_pages(page: str) -> None:
    html = bnaudit.audit(SAMPLES / "defects" / "frozen_but_updating.pt", static=True)._repr_html_()
    colors = set(re.findall(r"(?<![-\w])color: (#[0-9a-f]{6})", html))
    assert len(colors) == 5
    assert "background-color" not in html
    for color in colors:
        dark, light = sorted((luminance(color), luminance(page)))
        assert (light + 0.05) / (dark + 0.05) >= 3.5, color


def test_a_report_in_a_prompt_is_one_short_line(report: Report) -> None:
    text = repr(report)
    assert text.startswith("<Report: 1 artifact · 1 not audited · 1 error (BN101) · ")
    assert text.endswith("exit 2>")
    assert len(text) < 100
    assert repr(Report(version="0", audits=())) == "<Report: 0 artifacts · no findings · exit 3>"


def test_a_notebook_page_holds_it_as_the_display_system_asks_for_it(report: Report) -> None:
    shown: Any = type(report)._repr_html_
    assert shown(report) == notebook.html(report)
