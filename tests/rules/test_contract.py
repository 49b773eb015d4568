"""What every rule owes, whoever writes it: an answer or silence on anything that a format could return."""

from __future__ import annotations

import json
from importlib.resources import files
from types import MappingProxyType

import jsonschema
import pytest
from builders import description
from finding_words import MOST_SEVERE, check_words
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_parts import odd_parts
from plain import plain
from strategies import descriptions
from subjects import subjects

import bnaudit
from bnaudit.auditing import conclude
from bnaudit.description import Description
from bnaudit.records import replace
from bnaudit.reports import View, renderer
from bnaudit.results import Confidence, Hit, Report
from bnaudit.rules import Case, Rule, rules
from bnaudit.settings import Settings

RULES = tuple(rules())
SCHEMA = json.loads(files("bnaudit.reports").joinpath("report-1.schema.json").read_text(encoding="utf-8"))

pytestmark = pytest.mark.filterwarnings("error")
"""A warning from NumPy would stand between the user and the report."""

every_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])


def ask(rule: Rule, subject: Description) -> list[Hit]:
    return list(rule.check(Case(subject, MappingProxyType(dict(rule.limits)))))


@every_rule
def test_nothing_that_a_file_may_say_breaks_a_rule(rule: Rule) -> None:
    if rule.needs:
        pytest.skip("it needs more than a file")
    ask(rule, description())
    for odd in odd_parts():
        ask(rule, description(odd))
        ask(rule, description(odd, replace(odd, name="second"), steps=2**63, has_optimizer=True))


@every_rule
def test_a_rule_says_the_same_twice_and_changes_nothing(rule: Rule) -> None:
    subject = description(*odd_parts())
    before = plain(subject)
    assert ask(rule, subject) == ask(rule, subject)
    assert plain(subject) == before


@given(subject=descriptions())
@settings(max_examples=150)
def test_no_rule_fails_on_any_description(subject: Description) -> None:
    audit = conclude(subject, Settings(), RULES)
    assert audit.failed == ()
    for finding in audit.findings:
        assert finding.severity <= MOST_SEVERE[finding.confidence]
        assert finding.message and finding.advice
        assert len(finding.channels) <= 16
    assert plain(conclude(subject, Settings(), RULES).findings) == plain(audit.findings)


@given(
    subject=descriptions(),
    confidence=st.sampled_from(Confidence),
    selected=st.sets(st.sampled_from([rule.id for rule in RULES])),
    layers=st.sampled_from(((), ("bn*",), ("nothing",))),
    all_layers=st.booleans(),
)
def test_every_selection_gives_a_report_that_fits_the_schema(
    subject: Description, confidence: Confidence, selected: set[str], layers: tuple[str, ...], all_layers: bool
) -> None:
    chosen = Settings(min_confidence=confidence, layers=layers, all_layers=all_layers)
    asked, others = [r for r in RULES if r.id in selected], [r for r in RULES if r.id not in selected]
    audit = conclude(subject, chosen, asked, others)
    assert audit.failed == ()
    assert {finding.rule for finding in audit.findings} <= selected
    report = Report(version="0", audits=(audit,), rules={rule.id: rule.name for rule in asked})
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(renderer("json").render(report, View())))
    assert renderer("terminal").render(report, View(in_full=all_layers))


def test_all_rules_word_their_findings_alike() -> None:
    found = [finding for path in subjects() for finding in bnaudit.audit(path).findings]
    found += [finding for odd in odd_parts() for finding in conclude(description(odd), Settings(), RULES).findings]
    for finding in found:
        check_words(finding.rule, finding.message, finding.advice)
