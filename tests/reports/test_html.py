from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from builders import batch_norm, description, part
from html_reports import HOSTILE, Element, eventful, everything, finding, read
from measured import measured, statistics

from bnaudit.auditing import conclude
from bnaudit.errors import UsageError
from bnaudit.html import environment as environment_module
from bnaudit.html.pictures import MOST_ARTIFACTS
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.html import RENDERER
from bnaudit.results import Audit, Question, Report, Severity
from bnaudit.settings import Settings


@pytest.fixture(scope="module")
def text() -> str:
    return RENDERER.render(everything(), View())


@pytest.fixture(scope="module")
def document(text: str) -> Element:
    return read(text)


def page(*audits: Audit, **fields: object) -> Element:
    report = Report(version="0", audits=audits, **fields)  # type: ignore[arg-type]
    return read(RENDERER.render(report, View()))


def layers(*names: str, **fields: object) -> Audit:
    return conclude(description(part([batch_norm(name, **fields) for name in names])), Settings(), [])


def test_it_is_an_html_document_with_language_and_title(text: str, document: Element) -> None:
    assert text.startswith("<!DOCTYPE html>\n")
    (html,) = document.all("html")
    assert html.attributes["lang"] == "en"
    title = next(next(document.all("head")).all("title"))
    assert title.text == "Not audited completely: 2 artifacts – bnaudit"
    assert [each.text.split()[-1] for each in document.all("h1")] == ["completely"]


def test_ids_are_unique_and_what_is_referred_to_is_there(document: Element) -> None:
    ids = Counter(each.attributes["id"] for each in document.all() if "id" in each.attributes)
    assert max(ids.values()) == 1
    for each in document.all():
        for name in ("aria-labelledby", "data-for"):
            assert each.attributes.get(name, "main") in ids
        href = each.attributes.get("href", "#main")
        assert href == "data:," or (href[0] == "#" and href[1:] in ids), href


def test_headings_go_down_one_level_at_a_time(document: Element) -> None:
    levels = [int(each.tag[1]) for each in document.all() if re.fullmatch("h[1-6]", each.tag)]
    assert levels[0] == 1
    assert all(following <= level + 1 for level, following in pairwise(levels))


def test_nothing_is_loaded_from_anywhere(text: str, document: Element) -> None:
    for each in document.all():
        assert not {"src", "srcset", "action", "xlink:href", "data", "poster"} & set(each.attributes)
    assert not re.search(r"url\(|@import|//[\w.-]+\.\w", text)
    assert not {each.tag for each in document.all()} & {"img", "iframe", "object", "embed", "form", "base"}


def test_the_policy_allows_no_script_but_the_one_in_the_page(document: Element) -> None:
    (script,) = document.all("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    policy = next(e for e in document.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{digest}'" in policy.attributes["content"]
    assert policy.attributes["content"].startswith("default-src 'none'")


def test_a_hostile_name_is_text_wherever_it_stands(text: str, document: Element) -> None:
    assert "alert(" not in next(document.all("script")).text
    assert not [name for each in document.all() for name in each.attributes if name.startswith("on")]
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert "\u202e" not in text
    assert shown in {each.text for each in document.all("th")}, "in the ledger"
    assert any(each.text.startswith(shown) for each in document.all("title")), "at a mark"
    assert any(shown in each.text for each in document.all("li")), "in a finding"


def test_the_result_is_said_in_words(document: Element) -> None:
    lead = next(each.text for each in document.all("p") if each.attributes.get("class") == "lead")
    assert "3 errors, 1 warning, 1 note, 1 accepted · exit code 2: something could not be read or run" in lead


def test_a_pass_with_warnings_does_not_look_like_one_without() -> None:
    clean = layers("bn1")
    warned = replace(clean, findings=(finding("BN105", "bn1", Severity.WARNING),))
    assert next(page(clean).all("h1")).text == "✓ Passed"
    assert next(page(warned).all("h1")).text == "▲ Passed, with warnings"
    assert next(page().all("h1")).text == "? Not checked"
    failing = replace(clean, findings=(finding("BN105", "bn1", Severity.ERROR),))
    assert next(page(failing).all("h1")).text == "✗ Did not pass"
    assert next(page(failing, exit_zero=True).all("h1")).text == "– For information only"


def test_every_verdict_has_a_sign_a_word_a_reason_and_what_it_needs(document: Element) -> None:
    rows = next(each for each in document.all("table") if each.attributes.get("class") == "verdicts")
    cells = [[cell.text for cell in row.all() if cell.tag in ("td", "th")] for row in rows.all("tr")][1:]
    assert cells == [
        ["✓ passed", "buffers complete", "none is missing"],
        ["✗ failed", "eval mode holds required", "one is not"],
        ["? inconclusive", "neighbours do not matter", "no telling"],
        ["– not checked", "train–eval gap", "no inputs Needs your --inputs"],
        ["✓ passed", "frozen means frozen", "nothing is"],
    ]


def test_the_overview_has_a_row_per_artifact(document: Element) -> None:
    head, first, second = document.id("overview-table").all("tr")
    assert [cell.text for cell in head.all("th")] == [
        "artifact",
        "found",
        *(question.value for question in Question),
        "exit code",
    ]
    assert [cell.text for cell in first.all("td")] == [
        "✗ 3 errors ▲ 1 warning • 1 note",
        "✓ passed",
        "✗ failed required",
        "? inconclusive",
        "– not checked",
        "✓ passed",
        "2",
    ]
    assert next(second.all("td")).text == "nothing"


def test_what_is_accepted_expired_or_intended_is_said(document: Element) -> None:
    found = [each.text for each in document.all("article")]
    expired = next(each for each in found if "BN105" in each)
    assert "acceptance expired" in expired
    assert "Was accepted until 2020-01-31, which has passed: “known since” (bnaudit.toml: accept[0])" in expired
    known = next(each for each in found if "BN106" in each)
    assert "Accepted until 2099-01-31: “known since” (bnaudit.toml: accept[0])" in known
    meant = next(each for each in found if "BN302" in each)
    assert "intended" in meant and "medium confidence" in meant
    folded = next(each for each in document.all("details") if each.attributes.get("class") == "accepted")
    assert "BN106" in folded.text and "open" not in folded.attributes
    shown = read(RENDERER.render(everything(), View(show_accepted=True)))
    assert "open" in next(e for e in shown.all("details") if e.attributes.get("class") == "accepted").attributes


def test_findings_come_worst_first_with_number_limit_and_advice(document: Element) -> None:
    found = [each.text for each in document.all("article")]
    first = [text.split()[1] for text in found if "accepted" not in text.split("\n")[1]]
    assert first == sorted(first, key=["error", "warning", "note"].index)
    group = next(each for each in document.all("article") if "BN404" in each.text)
    assert "→ mend it" in group.text and "limit 0.5" in group.text
    rows = group.table()
    assert rows[0] == ["layer", "found", "limit", "channels, worst first"]
    assert rows[1] == ["layer3.bn", "0.7", "0.5", "3, 1"]
    assert rows[2][1] == "nan"


def test_of_many_places_some_are_shown_and_the_rest_is_folded() -> None:
    names = [f"layer{n}" for n in range(20)]
    found = tuple(finding("BN105", name, Severity.ERROR, message=f"off by {name}") for name in names)
    article = next(page(replace(layers(*names), findings=found)).all("article"))
    folded = next(article.all("details"))
    assert next(folded.all("summary")).text == "12 more"
    assert len(list(folded.all("li"))) == 12 and len(list(article.all("li"))) == 20


def test_an_error_that_no_verdict_speaks_of_stands_above_them(text: str) -> None:
    alarm = text.index("error BN901")
    assert alarm < text.index("buffers complete") and "loading it runs a program" in text[alarm : alarm + 200]


def test_what_was_not_audited_did_not_run_failed_or_was_not_read_is_named(document: Element) -> None:
    said = " ".join(document.text.split())
    for words in (
        "error cut.pt: cut.pt is truncated: copy it again",
        "error bnaudit.toml: intended.BN302: no layer fits prenet.*",
        "2 other files: not a model.",
        "internal failure in BN199 broken-rule: ZeroDivisionError",
        "BN301 neighbours, BN303 x: need a run",
        "data/7: sparse tensor (norm layers may be in it)",
        "run: PyTorch 2.13.0 · digits.npz, 16 of 360 samples",
    ):
        assert words in said, words


def test_the_ledger_has_a_row_per_layer_with_its_own_numbers() -> None:
    rows = page(layers(*(f"layer{n}.bn" for n in range(30)), counter=7)).id("a1-ledger")
    head, *body = rows.all("tr")
    cells = [[cell.text for cell in row.all() if cell.tag in ("td", "th")] for row in body]
    assert [row[0] for row in cells] == [f"layer{n}.bn" for n in range(30)]
    # 0.9⁷ = 0.4782969, momentum assumed.
    assert cells[0] == [
        "layer0.bn", "batch", "3", "7", "47.8 %", "not saved", "complete", "–", "–", "",
    ]  # fmt: skip
    assert [cell.text for cell in head.all("th")][4] == "initial left*"
    initial = [cell for cell in body[0].all("td") if "data-v" in cell.attributes]
    assert float(initial[0].attributes["data-v"]) == pytest.approx(0.4782969)


def test_an_artifact_without_norm_layers_says_so() -> None:
    assert "No norm layers." in page(conclude(description(part([])), Settings(), [])).text


def test_pages_of_the_rules_that_spoke_are_there_once_without_markup_of_their_own(document: Element) -> None:
    body = document.id("BN404")
    assert "What it finds" in [each.text for each in body.all("h4")]
    assert "update_bn(training_loader, model)" in body.text
    assert not list(body.all("a"))
    noted = page(replace(layers("bn1"), findings=(finding("BN102", "bn1", Severity.NOTE),)))
    (rule,) = (each for each in noted.all("details") if each.attributes.get("class") == "rule")
    assert next(rule.all("code")).text == "num_batches_tracked"


def test_pictures_are_images_with_a_text_a_sentence_and_their_numbers(document: Element) -> None:
    figures = list(document.all("figure"))
    assert [next(each.all("h4")).text for each in figures[:7]] == [
        "How far the output moves",
        "Mean: received against stored",
        "Variance: received against stored",
        "The train–eval gap by layer",
        "Initial statistics left",
        "Batches counted",
        "Spread of the gains",
    ]
    for figure in figures:
        (svg,) = figure.all("svg")
        assert svg.attributes["role"] == "img"
        assert len(svg.attributes["aria-label"]) > 20
        assert any(each.attributes.get("class") == "how" for each in figure.all("p"))
        assert len(figure.table()) > 1


def test_every_mark_of_a_picture_tells_its_layer_and_number(document: Element) -> None:
    figure = next(each for each in document.all("figure") if "Mean: received" in each.text)
    titles = [each.text for each in figure.all("title")]
    assert len(titles) == 39
    assert "layer3.bn: mean 1.5 stored sd off, 4 standard errors 0.08" in titles


def test_what_all_layers_have_alike_is_a_sentence_and_no_picture() -> None:
    shown = page(layers("bn1", "bn2", counter=1000))
    assert [next(each.all("h4")).text for each in shown.all("figure")] == ["Spread of the gains"]
    assert "num_batches_tracked is 1,000 in all 2 layers." in shown.text
    assert "below 0.01 % in all 2 layers" in shown.text


@pytest.mark.parametrize("count", [1, 16, 17, 3000])
def test_one_layer_or_thousands_can_be_drawn(count: int) -> None:
    audit = layers(*(f"layer{n}.bn" for n in range(count)))
    received = [statistics(f"layer{n}.bn", n, mean_shift=0.1) for n in range(count)]
    text = RENDERER.render(Report(version="0", audits=(replace(audit, measured=measured(*received)),)), View())
    named = "layer0.bn" in [each.text for each in read(text).all("text")]
    assert named == (count <= 16)
    assert len(text) < 3_000_000


def test_of_many_artifacts_those_that_do_not_pass_get_pictures_and_the_page_stays_small() -> None:
    healthy = [layers(*(f"layer{n}.bn{k}" for n in range(20) for k in (1, 2, 3)), counter=7) for _ in range(99)]
    text = RENDERER.render(Report(version="0", audits=(*healthy, eventful())), View())
    shown = read(text)
    assert len(text.encode()) < 5_000_000
    assert f"Pictures are drawn for {MOST_ARTIFACTS} of 100 artifacts" in shown.text
    pictured = {each.attributes["aria-labelledby"].partition("-")[0] for each in shown.all("figure")}
    assert len(pictured) == MOST_ARTIFACTS and "a100" in pictured


def test_ids_do_not_depend_on_the_order_of_hashes() -> None:
    code = (
        "from html_reports import everything; from bnaudit.reports import View; "
        "from bnaudit.reports.html import RENDERER; import hashlib; "
        "print(hashlib.sha256(RENDERER.render(everything(), View()).encode()).hexdigest())"
    )
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    shown = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1


def test_the_users_matplotlib_settings_change_nothing_and_are_left_alone() -> None:
    import matplotlib

    report = Report(version="0", audits=(layers("bn1", counter=7),))
    plain = RENDERER.render(report, View())
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path", "axes.grid": True}):
        assert RENDERER.render(report, View()) == plain
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_what_to_install_is_said_in_one_sentence(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment_module.environment.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=rf"html report needs {missing}.*: pip install 'bnaudit\[html\]'"):
        RENDERER.render(Report(version="0", audits=()), View())


def test_nothing_of_it_is_imported_before_a_page_is_made() -> None:
    code = (
        "import sys, bnaudit.reports.html; "
        "print(sorted({'jinja2', 'matplotlib', 'numpy', 'markdown_it'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_one_channel_is_a_channel() -> None:
    found = finding("BN105", "bn1", Severity.WARNING, channels=(3,), value=0.7, limit=0.5)
    shown = page(replace(layers("bn1"), findings=(found,)))
    (place,) = next(each for each in shown.all("ul") if each.attributes.get("class") == "places").all("li")
    assert " ".join(place.text.split()) == "bn1 something is off 0.7, limit 0.5 channel 3"
