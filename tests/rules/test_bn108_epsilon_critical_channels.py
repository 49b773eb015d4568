from __future__ import annotations

import math
import warnings
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from builders import batch_norm, description, hits, part
from compared import comparison

from bnaudit import arithmetic
from bnaudit.description import Artifact, Carrier, Description, NormKind
from bnaudit.records import replace
from bnaudit.results import Hit
from bnaudit.rules import Case, load_rule

RULE = "bn108_epsilon_critical_channels"
run = partial(hits, RULE)
graph = partial(part, carrier=Carrier.GRAPH)
LIMIT = (1e-3 - 1.21e-5) / 0.21  # √((v + 1e-3) / (v + 1e-5)) = 1.1 solved for v


def check(subject: Description, baseline: Description | None = None) -> list[Hit]:
    rule = load_rule(RULE)
    compared = None if baseline is None else comparison(subject.parts[0], baseline.parts[0])
    return list(rule.check(Case(subject, MappingProxyType(dict(rule.limits)), compared)))


def produced_by(producer: str, *layers: Any) -> Description:
    subject = description(graph(layers))
    artifact = Artifact(path="m.onnx", format="ONNX graph", size=1, bytes_read=1, producer=producer)
    return replace(subject, artifact=artifact)


def test_two_epsilons_in_one_file() -> None:
    layers = [batch_norm("bn1", var=(1e-4, 1, 2), eps=1e-3), batch_norm("bn2", var=(1, 1, 2), eps=1e-5)]
    (hit,) = run(graph(layers))
    assert (hit.layer, hit.value) == (None, round(1 / 6, 4))
    assert "1 of 6 channels" in hit.message
    assert "between epsilon 0.001 and 1e-05 (another layer)" in hit.message


@pytest.mark.parametrize(("variance", "expected"), [(LIMIT * 0.999, 1), (LIMIT * 1.001, 0)])
def test_ten_percent_is_the_limit(variance: float, expected: int) -> None:
    layers = [batch_norm("bn1", var=(variance, 1, 1), eps=1e-3), batch_norm("bn2", var=(1, 1, 1), eps=1e-5)]
    assert len(run(graph(layers))) == expected


def test_one_epsilon_however_small_the_variances_is_silent() -> None:
    layers = [batch_norm(f"bn{i}", var=(1e-9, 1e-6, 0), eps=1e-3) for i in range(4)]
    assert run(graph(layers)) == []


def test_rounding_is_no_second_epsilon() -> None:
    layers = [batch_norm("bn1", var=(0, 0, 0), eps=1e-5), batch_norm("bn2", var=(0, 0, 0), eps=float(np.float32(1e-5)))]
    assert run(graph(layers)) == []


def test_a_state_dict_states_no_epsilon() -> None:
    assert run(part([batch_norm(var=(0, 0, 0))])) == []


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.INSTANCE, NormKind.GROUP])
def test_the_epsilon_of_other_norms_is_no_evidence(kind: NormKind) -> None:
    layers = [batch_norm("bn1", var=(0, 0, 0), eps=1e-5), batch_norm("ln", kind=kind, eps=1e-3)]
    assert run(graph(layers)) == []


@pytest.mark.parametrize(
    ("producer", "eps", "found"),
    [
        ("pytorch 2.3.0", 1e-3, True),
        ("pytorch 2.3.0", 1e-5, False),
        ("paddle2onnx 1.2", 1e-3, True),
        ("paddle2onnx 1.2", 1e-5, False),
        ("TensorFlow 2.16", 1e-5, True),
        ("TensorFlow 2.16", 1e-3, False),
        ("keras 3.4", 1e-5, True),
        ("keras 3.4", 1e-3, False),
        ("tf2onnx 1.16", 1e-5, True),
        ("tf2onnx 1.16", 1e-3, False),
        ("somebody 1.0", 1e-3, False),
    ],
)
def test_a_producer_with_another_default(producer: str, eps: float, found: bool) -> None:
    result = check(produced_by(producer, batch_norm(var=(1e-4, 1, 2), eps=eps)))
    assert bool(result) is found
    other = {1e-3: 1e-5, 1e-5: 1e-3}[eps]
    assert all(f"between epsilon {eps:g} and {other:g} (the producer's default)" in hit.message for hit in result)


def test_a_baseline_with_another_epsilon() -> None:
    subject = description(graph([batch_norm(var=(1e-4, 1, 2), eps=1e-3)]))
    assert check(subject) == []
    (hit,) = check(subject, description(graph([batch_norm(eps=1e-5)])))
    assert "the baseline" in hit.message
    assert check(subject, description(graph([batch_norm(eps=1e-3)]))) == []
    assert check(subject, description(graph([batch_norm(eps=None)]))) == []


def test_one_finding_per_file() -> None:
    layers = [batch_norm(f"bn{i}", var=(1e-5, 1e-4, 1), eps=10.0**-i) for i in range(3, 8)]
    assert len(check(produced_by("pytorch 2.3.0", *layers))) == 1


def test_hostile_values_are_passed_over() -> None:
    nasty = (float("nan"), float("inf"), -1.0)
    layers = [batch_norm("bn1", var=nasty, eps=1e-3), batch_norm("bn2", var=(0, 0, 0), eps=0.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(graph(layers)) == []


def test_the_pages_arithmetic() -> None:
    assert round(LIMIT, 4) == 0.0047
    for variance, small, large, change in (
        (1, 1.0, 1.0, 0.0005),
        (0.01, 9.995, 9.535, 0.048),
        (1e-4, 95.35, 30.15, 2.16),
    ):
        gains = [1 / math.sqrt(variance + eps) for eps in (1e-5, 1e-3)]
        assert gains == pytest.approx([small, large], rel=1e-3)
        assert arithmetic.gain_change(np.array([variance]), 1e-5, 1e-3)[0] == pytest.approx(change, abs=0.005)
    assert [round(1 / math.sqrt(0.0047 + eps), 2) for eps in (1e-5, 1e-3)] == [14.57, 13.25]


@pytest.mark.parametrize(("limit", "found"), [(1.0, 0), (0.999, 1)])
def test_a_change_exactly_at_the_limit_is_no_finding(limit: float, found: int) -> None:
    layers = [batch_norm("bn1", var=(0, 9, 9), eps=1.0), batch_norm("bn2", var=(9, 9, 9), eps=4.0)]
    assert len(run(graph(layers), limits={"gain_change": limit})) == found  # √(4 / 1) − 1 = 1


def test_a_variance_of_zero_counts_between_two_epsilons_and_not_against_none() -> None:
    layers = [batch_norm("bn1", var=(0, 1, 1), eps=1e-3), batch_norm("bn2", var=(1, 1, 1), eps=1e-5)]
    (hit,) = run(graph(layers))
    assert "1 of 6 channels" in hit.message
    layers = [batch_norm("bn1", var=(0, 1e-4, 1e-4), eps=0.0), batch_norm("bn2", var=(1, 1, 1), eps=1e-3)]
    (hit,) = run(graph(layers))
    assert "2 of 6 channels" in hit.message
    assert "between epsilon 0 and 0.001 " in hit.message


@pytest.mark.parametrize("eps", [-1.0, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_no_evidence(eps: float) -> None:
    usable = batch_norm("bn1", var=(1e-4, 0, 2), eps=1e-3)
    assert run(graph([usable, batch_norm("bn2", eps=eps)])) == []
    assert check(description(graph([usable])), description(graph([batch_norm(eps=eps)]))) == []


def test_the_epsilon_of_a_baselines_other_norms_is_no_evidence() -> None:
    subject = description(graph([batch_norm(var=(1e-4, 0, 2), eps=1e-3)]))
    assert check(subject, description(graph([batch_norm(kind=NormKind.LAYER, eps=1e-5)]))) == []


def test_only_channels_of_which_epsilon_and_variance_are_known_are_counted() -> None:
    layers = [
        batch_norm("bn1", var=(1e-4, 1, 2), eps=1e-3),
        batch_norm("bn2", var=(1, 1, 2), eps=1e-5),
        batch_norm("bn3", mean=None, var=None, eps=1e-3),
        batch_norm("bn4", var=(1, 1, 2), eps=None),
        batch_norm("bn6", var=(1, 1, 2), eps=math.inf),
        batch_norm("bn5", mean=None, gamma=None, beta=None, counter=None, var=[[1.0, 2.0]], eps=1e-5),
    ]
    (hit,) = run(graph(layers))
    assert "1 of 6 channels" in hit.message


@pytest.mark.parametrize(("excess", "found"), [(0.95e-3, 0), (1.0005e-3, 0), (1.05e-3, 1)])
def test_a_thousandth_of_the_larger_epsilon_is_rounding(excess: float, found: int) -> None:
    subject = produced_by("keras 3.4", batch_norm(var=(0, 1, 2), eps=1e-3 * (1 + excess)))
    rule = load_rule(RULE)
    assert len(list(rule.check(Case(subject, MappingProxyType({"gain_change": 0.0}))))) == found


def test_exactly_a_thousandth_is_rounding_too() -> None:
    layers = [batch_norm("bn1", var=(0, 1, 2), eps=1000.0), batch_norm("bn2", var=(0, 1, 2), eps=999.0)]
    assert run(graph(layers), limits={"gain_change": 0.0}) == []


@pytest.mark.parametrize(
    ("count", "largest_at", "tried"),
    [(16, None, "8"), (17, None, "1"), (17, 0, "6.55e+04"), (17, 16, "1")],
)
def test_of_more_than_sixteen_epsilons_the_smallest_and_the_largest_are_tried(
    count: int, largest_at: int | None, tried: str
) -> None:
    """All differ by a factor of 2 at least, and every variance is so small that each changes all others' gains."""
    layers = [
        batch_norm(f"bn{i}", mean=None, gamma=None, beta=None, var=(1e-12,) * (3 if i == largest_at else 1), eps=2.0**i)
        for i in range(count)
    ]
    layers.insert(0, layers.pop(3))
    (hit,) = run(graph(layers))
    assert f"and {tried} (another layer)" in hit.message
