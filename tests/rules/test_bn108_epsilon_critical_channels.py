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
        ("tf2onnx 1.16", 1e-5, True),
        ("tf2onnx 1.16", 1e-3, False),
        ("somebody 1.0", 1e-3, False),
    ],
)
def test_a_producer_with_another_default(producer: str, eps: float, found: bool) -> None:
    result = check(produced_by(producer, batch_norm(var=(1e-4, 1, 2), eps=eps)))
    assert bool(result) is found
    assert all("the producer's default" in hit.message for hit in result)


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
