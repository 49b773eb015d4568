"""What every rule on two artifacts owes: an answer or silence on any two, in the others' words, each defect once."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from types import MappingProxyType

import numpy as np
import pytest
from builders import description, part
from compared import comparison, trained
from finding_words import check_words
from hypothesis import given, settings
from odd_parts import odd_layers, odd_parts
from plain import plain
from strategies import descriptions

from bnaudit.comparison import Comparison
from bnaudit.description import Description, NormLayer, Part
from bnaudit.measuring import Run
from bnaudit.results import Finding, Hit
from bnaudit.rule_findings import check
from bnaudit.rules import Case, Rule, rules
from bnaudit.settings import Settings

RULES = tuple(rule for rule in rules() if rule.needs == ("baseline",))

pytestmark = pytest.mark.filterwarnings("error")

every_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])


def ask(rule: Rule, compared: Comparison) -> list[Hit]:
    return list(rule.check(Case(description(compared.subject_part), MappingProxyType(dict(rule.limits)), compared)))


def findings(subject: NormLayer, baseline: NormLayer) -> list[Finding]:
    """Of all rules together, those that yield taken away."""
    compared = comparison(part([subject]), part([baseline]))
    described = description(compared.subject_part)
    found = check(described, Settings(), RULES, (), Run(described), compared)
    assert not found.failed
    return list(found.findings)


@lru_cache
def odd_pairs() -> list[Comparison]:
    layers = [trained(), *odd_layers()]
    parts = [*odd_parts()][:3]
    singles = [comparison(part([one]), part([other])) for one, other in product(layers, layers)]
    return singles + [comparison(one, other) for one, other in product(parts, parts)]


@every_rule
def test_nothing_that_two_files_may_say_breaks_a_rule(rule: Rule) -> None:
    for compared in odd_pairs():
        for hit in ask(rule, compared):
            check_words(rule.id, hit.message, hit.advice)
            assert hit.message.isprintable() and len(hit.channels) <= 16
            assert (
                hit.value is None or isinstance(hit.value, (str, int)) or np.isfinite(hit.value) or "eps" in hit.message
            )


@every_rule
def test_a_rule_is_silent_on_an_artifact_and_itself(rule: Rule) -> None:
    for odd in [part([layer]) for layer in (trained(), *odd_layers())]:
        assert ask(rule, comparison(odd, odd)) == []


@given(subject=descriptions(), baseline=descriptions())
@settings(max_examples=30)
def test_no_rule_fails_on_any_two_descriptions(subject: Description, baseline: Description) -> None:
    ours, theirs = (each.parts[0] if each.parts else part([]) for each in (subject, baseline))
    compared = comparison(ours, theirs)
    before = plain((ours, theirs))
    found = check(subject, Settings(), RULES, (), Run(subject), compared)
    assert not found.failed
    assert plain((ours, theirs)) == before
    if ours is theirs:
        assert not found.findings


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"mean": np.zeros(8)}, "BN601"),
        ({"mean": np.zeros(8), "var": np.ones(8)}, "BN601"),
        ({"beta": np.zeros(8)}, "BN602"),
        ({"eps": 1e-3}, "BN604"),
        ({"seed": 3}, "BN607"),
        ({"mean": 100 * np.array(trained().mean), "var": 100 * np.array(trained().var)}, "BN608"),
        ({"gamma": np.ones(8)}, "BN608"),
        ({"gamma": None, "affine": False}, "BN608"),
        ({"mean": 7 * np.array(trained().mean), "var": 7 * np.array(trained().var), "gamma": np.ones(8)}, "BN608"),
    ],
)
def test_one_defect_is_one_finding(changes: dict[str, object], rule: str) -> None:
    baseline = trained(eps=1e-5, affine=True)
    found = findings(trained(**{"eps": 1e-5, "affine": True, **changes}), baseline)  # type: ignore[arg-type]
    assert [each.rule for each in found] == [rule]


def test_a_part_without_layers_is_compared_with_anything() -> None:
    carriers = dict.fromkeys(each.carrier for each in odd_parts())
    for one, other in product((Part(name="", carrier=carrier) for carrier in carriers), repeat=2):
        compared = comparison(one, other)
        for rule in RULES:
            ask(rule, compared)
