from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from report_endings import NAMES, RULES, audit, endings, many_layers
from strategies import descriptions

from bnaudit.auditing import conclude
from bnaudit.description import Description
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.markdown import LONGEST, MARKER, RENDERER
from bnaudit.results import Audit, Report, Severity, Unaudited
from bnaudit.settings import Settings

ENGINE = MarkdownIt("gfm-like", {"linkify": False}).enable("table")
ENDINGS = endings()
OURS = re.compile(r"<!-- bnaudit -->|<details><summary>[^<>]*(<code>[^<>]*</code>)?</summary>|</details>|</?code>")
"""All HTML that a report holds."""
HOSTILE = (
    "a|b",
    "a\\|b",
    "a\\",
    "`|`",
    "``",
    "<img src=x onerror=alert(1)>",
    "</summary></details><script>",
    "<!--",
    "[x](http://evil)",
    "![x](http://evil)",
    "http://evil.example/x",
    "www.evil.example",
    "@everyone",
    "a@b.example",
    "#123",
    "GH-1",
    "owner/repo#1",
    "**bold** _it_ ~~s~~",
    "# h",
    "- x",
    "1. x",
    "> q",
    "a\n\n# b",
    "| --- |",
    "$x$",
    "&lt;b&gt;",
    "",
    " ",
)


def rendered(report: Report) -> str:
    text = RENDERER.render(report, View())
    assert len(text) <= LONGEST and text.splitlines()[0] == MARKER and text.endswith("\n") and "\n\n\n" not in text
    return text


def tokens(text: str) -> list[Token]:
    found: list[Token] = []
    for token in ENGINE.parse(text):
        found += [token, *(token.children or [])]
    return found


def check(text: str) -> None:
    """Nothing is a link, an image or foreign HTML; mentions and references stand in code; tables keep their shape."""
    found = tokens(text)
    kinds = {token.type for token in found}
    assert not kinds & {"link_open", "image", "code_block", "blockquote_open", "ordered_list_open", "hr", "s_open"}
    in_code = False
    for token in found:
        if token.type in ("html_block", "html_inline"):
            assert OURS.sub("", token.content).strip() == "", token.content
            in_code = token.content == "<code>"
        if token.type == "text" and not in_code:
            assert not re.search(r"[@#$]\w|\w@|https?:|www\.|\bGH-\d", token.content), token.content
    assert len([t for t in found if t.type == "heading_open" and t.tag in ("h1", "h4", "h5", "h6")]) == 0
    for table in re.findall(r"<table>.*?</table>", ENGINE.render(text), re.DOTALL):
        cells = [row.count("<th>") + row.count("<td") for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)]
        # Of an audit the overview and the ledger; of a comparison one row names it, and tables have their own columns.
        assert len(set(cells)) == 1 and (cells[0] == 7 or "against" in text or "saved and loaded" in text)
    html = "".join(token.content for token in found if token.type == "html_block")
    assert html.count("<details>") == html.count("</details>")


def hostile_audit(name: str) -> Audit:
    found = audit(name, path=f"{name}.pt", healthy=())
    changed = [replace(each, message=name, advice=name, part=name) for each in found.findings]
    extra = tuple(replace(each, severity=severity) for each in changed for severity in Severity)
    rows = tuple(replace(row, part=name, mode=name, state=name) for row in found.ledger)
    return replace(found, findings=found.findings + extra, ledger=rows)


def test_the_result_stands_in_the_heading() -> None:
    expected = {
        "healthy": "passed",
        "findings": "did not pass",
        "unmatched": "settings that fit nothing",
        "required": "not decided",
        "broken": "not audited completely",
        "nothing": "not checked",
        "interrupted": "interrupted",
        "for information": "for information only",
        "accepted": "passed",
    }
    for ending, result in expected.items():
        assert rendered(ENDINGS[ending]).splitlines()[1] == f"## bnaudit: {result}", ending


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_is_sound_markdown(ending: str) -> None:
    check(rendered(ENDINGS[ending]))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(name: str, make_report: Callable[..., Report]) -> None:
    unread = Unaudited(path=f"{name}.onnx", why=f"{name} is broken: {name}", error=True)
    check(rendered(make_report(hostile_audit(name), unaudited=(unread,))))
    check(rendered(make_report(hostile_audit(name), hostile_audit(name))))


@given(name=st.text(alphabet=st.sampled_from("|\\`*_<>[]()#@!~&$-+.:/ ab1\n"), max_size=12))
@settings(max_examples=150)
def test_any_name_stays_a_name(name: str) -> None:
    check(rendered(Report(version="0", audits=(hostile_audit(name),))))


@given(subject=descriptions())
@settings(max_examples=30)
def test_any_description_is_sound_markdown(subject: Description) -> None:
    found = conclude(subject, Settings(), RULES)
    check(rendered(Report(version="0", audits=(found, found), rules=NAMES)))


def test_the_table_has_a_row_for_each_artifact_and_a_column_for_each_verdict() -> None:
    html = ENGINE.render(rendered(ENDINGS["required"]))
    head, row = re.findall(r"<tr>.*?</tr>", html, re.DOTALL)[:2]
    assert re.findall(r"<th>(.*?)</th>", head)[:2] == ["artifact", "buffers"]
    cells = re.findall(r"<td>(.*?)</td>", row)
    assert cells[0] == "<code>model.pt</code>"
    assert cells[1:4] == ["passed (required)", "not checked", "<strong>not checked</strong> (required)"]


def test_a_finding_is_said_as_in_the_terminal() -> None:
    text = rendered(ENDINGS["findings"])
    assert "**error BN107** negative-variance\n\n- `bn{2,3}` ×2 — lowest running variance below 0" in text
    assert "(-1, limit -1e-05)" in text and "\n\n→ " in text


def test_accepted_findings_are_folded_and_expired_ones_are_not() -> None:
    text = rendered(ENDINGS["accepted"])
    before, _, after = text.partition("<details><summary>1 accepted finding</summary>")
    assert (
        "**error BN107**" not in before
        and "retrained in spring" in after
        and "no findings, 1 accepted · exit 0" in before
    )
    text = rendered(ENDINGS["expired"])
    assert "was accepted until 2020-01-31" in text.partition("<details>")[0]


def test_what_did_not_run_or_broke_is_there() -> None:
    text = rendered(ENDINGS["broken"])
    assert "**error** internal failure" in text and "BN199" in text and "BN301 did not run in 1 of 1 artifact" in text
    assert "**error** required not decided: model.pt: neighbours is required" in rendered(ENDINGS["required"])
    assert "**warning** matches nothing" in rendered(ENDINGS["unmatched"])


def test_a_comment_never_grows_too_long_and_says_what_is_left_out() -> None:
    audits = tuple(audit("bn2", path=f"models/{number}/{'x' * 60}.pt") for number in range(600))
    text = rendered(Report(version="0", audits=audits, rules=NAMES))
    check(text)
    assert len(text) > LONGEST / 2
    last = text.splitlines()[-1]
    assert last.startswith("Left out, to stay below 65,536 characters: ") and "findings of artifacts (" in last
    assert "artifacts more, not shown here" in text


def test_artifacts_that_do_not_pass_are_kept_in_a_long_table() -> None:
    sound = tuple(audit(path=f"models/{number}/{'x' * 60}.pt") for number in range(600))
    text = rendered(Report(version="0", audits=(*sound, audit("bn2", path="last.pt")), rules=NAMES))
    assert "| `last.pt` | **failed** |" in text


def test_names_of_any_length_are_cut() -> None:
    text = rendered(Report(version="0", audits=(hostile_audit("x" * 200_000),)))
    check(text)
    assert "BN107" in text


def test_the_same_finding_on_many_layers_is_one_line() -> None:
    assert "- `blocks.{0..199}.bn` ×200 — " in rendered(many_layers(200))
