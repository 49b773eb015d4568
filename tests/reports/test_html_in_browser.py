"""The HTML report in a real browser: what a click and a key do, what is readable, what is loaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from html_reports import HOSTILE, eventful, everything

from bnaudit.reports import View
from bnaudit.reports.html import RENDERER
from bnaudit.results import Report

api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
CHROMIUM = next(
    (found for name in ("chromium", "google-chrome", "chromium-browser") if (found := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is installed")

CONTRASTS = """() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
      if (color[3] !== 0) throw new Error("half transparent background");
    }
    throw new Error("no background");
  };
  const found = new Map();
  const look = (element, color, least) => {
    const [one, other] = [luminance(parse(color)), luminance(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const what = `${element.tagName} .${element.getAttribute("class")} ${color}`;
    if (ratio < least) found.set(what, ratio);
    return 1;
  };
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "OPTION", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    seen += look(element, element.namespaceURI.endsWith("svg") ? style.fill : style.color, 4.5);
  }
  for (const mark of document.querySelectorAll("svg use")) {
    const style = getComputedStyle(mark);
    seen += look(mark, style.stroke === "none" ? style.fill : style.stroke, 3);
  }
  return { seen, found: [...found] };
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "report.html"
    path.write_text(RENDERER.render(everything(), View()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as driver:
        # Every launch gets a new, empty user-data-dir.
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


class Tab:
    """A page with all that the browser said and asked for."""

    def __init__(self, context: Any, file: Path) -> None:
        self.page = context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def column(self, number: int, table: str = "a1-ledger") -> list[str]:
        """The texts of one column's visible cells."""
        cells = f"#{table} tbody tr:not([hidden]) > :nth-child({number})"
        return list(self.page.eval_on_selector_all(cells, "cells => cells.map(cell => cell.textContent)"))

    def sorted_by(self, table: str = "a1-ledger") -> dict[str, str]:
        """Head → aria-sort of the columns that are sorted."""
        script = "heads => heads.map(head => [head.textContent, head.getAttribute('aria-sort')])"
        heads = self.page.eval_on_selector_all(f"#{table} thead th", script)
        return {name: order for name, order in heads if order != "none"}


@pytest.fixture
def tab(browser: Any, file: Path) -> Iterator[Tab]:
    context = browser.new_context()
    opened = Tab(context, file)
    yield opened
    assert opened.said == [], "no error and no warning in the console, whatever was done"
    assert set(opened.requests) <= {file.as_uri(), "data:,"}, "no request leaves the file"
    context.close()


def test_a_click_sorts_up_then_down_then_as_the_file_has_it(tab: Tab) -> None:
    before = tab.column(4)
    head = tab.page.get_by_role("columnheader", name="batches").get_by_role("button")
    head.click()
    numbers = [float(text.replace(",", "")) for text in tab.column(4)[:-1]]
    assert numbers == sorted(numbers) and tab.column(4)[-1] == "nan"
    assert tab.sorted_by() == {"batches": "ascending"}
    head.click()
    numbers = [float(text.replace(",", "")) for text in tab.column(4)[:-1]]
    assert numbers == sorted(numbers, reverse=True) and tab.column(4)[-1] == "nan"
    assert tab.sorted_by() == {"batches": "descending"}
    head.click()
    assert tab.column(4) == before
    assert tab.sorted_by() == {}


def test_a_key_sorts_and_shares_go_by_their_value(tab: Tab) -> None:
    head = tab.page.get_by_role("columnheader", name="initial left").get_by_role("button")
    head.focus()
    tab.page.keyboard.press("Enter")
    shares = [float(text.removesuffix(" %")) for text in tab.column(5) if "%" in text and "<" not in text]
    assert len(shares) > 20 and shares == sorted(shares)
    assert tab.column(5)[0] == "< 0.1 %" and tab.column(5)[-1] == "–"
    tab.page.keyboard.press("Space")
    assert tab.sorted_by() == {"initial left*": "descending"}


def test_layers_are_sorted_as_a_person_counts(tab: Tab) -> None:
    tab.page.get_by_role("columnheader", name="layer").get_by_role("button").click()
    names = [name for name in tab.column(1) if name.startswith("layer")]
    assert names[:3] == ["layer0.bn", "layer1.bn", "layer2.bn"] and names[-1] == "layer36.bn"


def test_the_overview_is_sorted_by_what_was_found(tab: Tab) -> None:
    tab.page.get_by_role("columnheader", name="found").first.get_by_role("button").click()
    assert tab.column(2, "overview-table")[0] == "nothing"


def test_a_filter_shows_what_has_all_its_words_and_counts(tab: Tab) -> None:
    field = tab.page.locator("[data-for=a1-ledger]").get_by_label("Filter")
    count = tab.page.locator("[data-for=a1-ledger] output")
    assert count.inner_text() == "40 layers"
    field.fill("BN404 layer3")
    assert tab.column(1) == ["layer3.bn"]
    assert count.inner_text() == "1 of 40 layers"
    field.fill("alert(")
    assert tab.column(1) == [HOSTILE.replace("\u202e", "\\u202e")]
    field.fill("no such layer")
    assert tab.column(1) == [] and count.inner_text() == "0 of 40 layers"
    field.fill("")
    assert len(tab.column(1)) == 40


def test_what_is_saved_can_be_chosen_together_with_a_filter(tab: Tab) -> None:
    saved = tab.page.locator("[data-for=a1-ledger]").get_by_label("Saved")
    saved.select_option("non-finite variance")
    assert tab.column(1) == ["broken"]
    tab.page.locator("[data-for=a1-ledger]").get_by_label("Filter").fill("layer3")
    assert tab.column(1) == []
    saved.select_option("all")
    assert len(tab.column(1)) == 8


def test_a_link_to_a_rule_opens_its_page(tab: Tab) -> None:
    page = tab.page.locator("#BN404")
    assert not page.is_visible()
    tab.page.locator("article a[href='#BN404']").first.click()
    page.wait_for(state="visible")


def test_a_hostile_name_runs_nothing(tab: Tab) -> None:
    opened: list[str] = []
    tab.page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    tab.page.reload()
    assert opened == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_and_all_marks_stand_out_from_what_is_behind_them(browser: Any, file: Path, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)
    tab = Tab(context, file)
    tab.page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    shown = tab.page.evaluate(CONTRASTS)
    assert shown["seen"] > 500
    assert shown["found"] == []
    dark = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, dark[4:-1].split(","))) < 128) == (scheme == "dark")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, file: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    context = browser.new_context(color_scheme=scheme)
    tab = Tab(context, file)
    tab.page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    results = axe.Axe().run(tab.page)
    assert len(results.response["passes"]) > 20
    assert results.violations_count == 0, results.generate_report()
    context.close()


def test_without_scripts_everything_is_there_and_nothing_that_would_do_nothing(browser: Any, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = Tab(context, file)
    assert tab.page.get_by_role("heading", level=1).inner_text().endswith("Not audited completely")
    assert tab.page.locator("#a1-ledger tbody tr").count() == 40
    assert tab.page.locator("#a1-ledger").is_visible()
    assert tab.page.locator("figure svg").first.is_visible()
    for gone in ("thead button", ".controls"):
        assert not any(each.is_visible() for each in tab.page.locator(gone).all()), gone
    tab.page.locator("article a[href='#BN404']").first.click()
    tab.page.locator("#BN404").wait_for(state="visible")
    assert tab.said == []
    context.close()


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_is_never_wider_than_the_window(browser: Any, file: Path, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = Tab(context, file)
    tab.page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_the_skip_link_comes_first_and_leads_to_the_report(tab: Tab) -> None:
    tab.page.keyboard.press("Tab")
    link = tab.page.locator(":focus")
    assert link.inner_text() == "Skip to the report"
    assert link.bounding_box()["x"] >= 0
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id") == "main"


def test_only_what_scrolls_is_a_stop_of_the_tab_key(browser: Any, file: Path) -> None:
    stops = {}
    for width in (360, 1600):
        context = browser.new_context(viewport={"width": width, "height": 900})
        stops[width] = Tab(context, file).page.locator(".chart[tabindex='0']").count()
        context.close()
    assert stops[360] > 5 and stops[1600] == 0


def test_a_deep_net_is_sorted_at_once(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep.html"
    path.write_text(RENDERER.render(Report(version="0", audits=(eventful(2000),)), View()), encoding="utf-8")
    context = browser.new_context()
    tab = Tab(context, path)
    clicked = "performance.now() - (window.started ?? (window.started = performance.now()))"
    tab.page.evaluate(clicked)
    tab.page.get_by_role("columnheader", name="batches").get_by_role("button").click()
    assert tab.page.evaluate(clicked) < 3000
    assert tab.sorted_by() == {"batches": "ascending"}
    context.close()
