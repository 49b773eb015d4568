"""Tests over the rules themselves: what a rule file must be, whoever writes it."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

from bnaudit.plugins import load, names
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, Rule, load_rule, rule, rule_files, rule_id, rules

FILES = names("bnaudit.rules")
RULES = {file_name: load_rule(file_name) for file_name in FILES}
IDS = [rule.id for rule in RULES.values()]
TESTS = Path(__file__).parent

FAMILIES = {
    "BN1": [f"BN{number}" for number in range(101, 119)],
    "BN2": [f"BN{number}" for number in range(201, 212)],
    "BN3": [f"BN{number}" for number in range(301, 308)],
    "BN4": [f"BN{number}" for number in range(401, 408)],
    "BN5": ["BN501", "BN502"],
    "BN6": [f"BN{number}" for number in range(601, 609)],
    "BN9": ["BN901"],
}
HEADINGS = ("What it finds", "Why it matters", ("Worked arithmetic", "Example"), "How to fix", "Limits")
ORDERS_NOT_DEFECTS = ("avoid-", "use-", "prefer-", "no-", "do-not-", "dont-", "check-", "should-", "must-", "require-")

every_rule = pytest.mark.parametrize("file_name", FILES)


def headings(rule: Rule) -> list[str]:
    return re.findall(r"^## (.+)$", rule.doc, re.MULTILINE)


def test_ids_are_unique_and_in_the_order_of_the_files() -> None:
    assert len(set(IDS)) == len(IDS)
    assert sorted(IDS) == IDS
    assert [rule.id for rule in rules()] == IDS


def test_names_are_unique() -> None:
    given = [rule.name for rule in RULES.values()]
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rule_of_the_family_is_there(family: str) -> None:
    assert not set(FAMILIES[family]) - set(IDS)


@every_rule
def test_the_file_is_named_for_id_and_function(file_name: str) -> None:
    rule = RULES[file_name]
    assert re.fullmatch(r"BN\d{3}", rule.id)
    assert file_name == f"{rule.id.lower()}_{rule.name.replace('-', '_')}"
    assert rule_id(file_name) == rule.id
    assert getattr(load("bnaudit.rules", file_name), rule.name.replace("-", "_")) is rule


@every_rule
def test_the_name_states_the_defect(file_name: str) -> None:
    """It is read as "allow <name>"."""
    name = RULES[file_name].name
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", name)
    assert not name.startswith(ORDERS_NOT_DEFECTS)


@every_rule
def test_the_page_has_its_headings_in_order(file_name: str) -> None:
    found = headings(RULES[file_name])
    assert len(found) == len(HEADINGS), found
    for heading, expected in zip(found, HEADINGS, strict=True):
        assert heading in (expected if isinstance(expected, tuple) else (expected,))


@every_rule
def test_no_part_of_the_page_is_empty(file_name: str) -> None:
    for part in re.split(r"^## .+$", RULES[file_name].doc, flags=re.MULTILINE):
        assert part.strip()


@every_rule
def test_the_summary_is_one_short_line(file_name: str) -> None:
    rule = RULES[file_name]
    assert 10 <= len(rule.summary) <= 100
    assert rule.summary.endswith(".")
    assert rule.doc.strip().split("\n")[1] == "", "a blank line follows the summary"


@every_rule
def test_the_page_shows_how_to_fix_it_in_code_or_in_steps(file_name: str) -> None:
    """An indented block somewhere in the page: the worked example or the code."""
    assert re.search(r"^    \S", RULES[file_name].doc, re.MULTILINE)


@every_rule
def test_the_page_fits_a_terminal_and_names_limits_as_a_list(file_name: str) -> None:
    lines = RULES[file_name].doc.strip().split("\n")
    assert 25 <= len(lines) <= 75
    assert max(map(len, lines)) <= 120
    assert "\n- " in RULES[file_name].doc.partition("## Limits")[2]


@every_rule
def test_limits_are_numbers_under_plain_names(file_name: str) -> None:
    for name, value in RULES[file_name].limits.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert isinstance(value, (int, float))
        assert not isinstance(value, bool)
        off = (file_name, name, value) == ("bn403_train_eval_gap", "max_gap", math.inf)  # until the user sets it
        assert math.isfinite(value) or off


@every_rule
def test_every_limit_that_is_declared_is_used(file_name: str) -> None:
    source = Path(str(load("bnaudit.rules", file_name).__file__)).read_text(encoding="utf-8")
    for name in RULES[file_name].limits:
        assert source.count(f'"{name}"') >= 2, f"{name} is declared and never read"


@every_rule
def test_severity_question_and_needs_are_of_their_kinds(file_name: str) -> None:
    rule = RULES[file_name]
    assert isinstance(rule.severity, Severity)
    assert rule.question is None or isinstance(rule.question, Question)
    assert all(isinstance(need, str) and need for need in rule.needs)


@every_rule
def test_it_yields_to_rules_that_exist(file_name: str) -> None:
    rule = RULES[file_name]
    assert not set(rule.yields_to) - set(IDS)
    assert len(set(rule.yields_to)) == len(rule.yields_to)


def test_no_two_rules_wait_for_each_other() -> None:
    """A circle would silence both on the same layer."""
    tuple(TopologicalSorter({rule.id: rule.yields_to for rule in RULES.values()}).static_order())


@every_rule
def test_it_has_tests_of_its_own(file_name: str) -> None:
    path = TESTS / f"test_{file_name}.py"
    assert path.exists()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(found) >= 3


@every_rule
def test_other_rules_that_the_page_mentions_exist(file_name: str) -> None:
    planned = re.compile(r"BN6\d\d")  # the family that needs a second artifact
    mentioned = set(re.findall(r"BN\d{3}", RULES[file_name].doc))
    assert not {id for id in mentioned if not planned.fullmatch(id)} - set(IDS)


def test_a_rule_is_made_of_its_module_and_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def some_defect(case: Case) -> Iterator[Hit]:
        yield from ()

    made = rule(id="BN999", severity=Severity.NOTE, limits={"share": 0.5})(some_defect)
    assert (made.name, made.doc, dict(made.limits)) == ("some-defect", __doc__, {"share": 0.5})
    assert made.summary == "Tests over the rules themselves: what a rule file must be, whoever writes it."
    bare = ModuleType("no_docstring")
    monkeypatch.setitem(sys.modules, bare.__name__, bare)
    some_defect.__module__ = bare.__name__
    made = rule(id="BN999", severity=Severity.NOTE)(some_defect)
    assert (made.doc, dict(made.limits)) == ("", {})


def test_files_are_found_by_the_ids_in_their_names() -> None:
    assert rule_files()["BN101"] == "bn101_missing_running_buffers"
    assert sorted(rule_files().values()) == list(FILES)
