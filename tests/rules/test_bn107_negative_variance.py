from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, hits, part
from hypothesis import given
from hypothesis import strategies as st

from bnaudit import arithmetic
from bnaudit.description import NormKind
from bnaudit.results import Confidence, Severity

run = partial(hits, "bn107_negative_variance")


@pytest.mark.parametrize(
    ("lowest", "eps", "severity"),
    [
        (-1e-5, 1e-5, Severity.ERROR),
        (-2e-5, 1e-5, Severity.ERROR),
        (-0.999e-5, 1e-5, Severity.WARNING),
        (-1e-30, 1e-5, Severity.WARNING),
        (-0.999e-3, 1e-3, Severity.WARNING),
        (0.0, 0.0, Severity.ERROR),
    ],
)
def test_a_known_epsilon_decides(lowest: float, eps: float, severity: Severity) -> None:
    (hit,) = run(part([batch_norm(var=(1, lowest, 2), eps=eps)]))
    assert (hit.severity, hit.confidence, hit.value, hit.channels) == (severity, Confidence.HIGH, lowest, (1,))


@pytest.mark.parametrize(
    ("lowest", "severity", "confidence"),
    [
        (-1.9, Severity.ERROR, Confidence.HIGH),
        (-1e-3, Severity.ERROR, Confidence.HIGH),
        (-0.9e-3, Severity.ERROR, Confidence.MEDIUM),
        (-0.9e-5, Severity.WARNING, Confidence.MEDIUM),
    ],
)
def test_an_unknown_epsilon_is_assumed_where_it_matters(
    lowest: float, severity: Severity, confidence: Confidence
) -> None:
    (hit,) = run(part([batch_norm(var=(1, lowest, 2))]))
    assert (hit.severity, hit.confidence) == (severity, confidence)
    assert ("epsilon taken as 1e-05" in hit.message) is (confidence is Confidence.MEDIUM)


@pytest.mark.parametrize("var", [(0, 0, 0), (1e-30, 1, 2), (float("nan"), 1, 1), (float("-inf"), 1, 1), (), None])
def test_what_is_not_negative_is_silent(var: Any) -> None:
    assert run(part([batch_norm(var=var)])) == []
    assert run(part([batch_norm(var=var, eps=1e-5)])) == []


@pytest.mark.parametrize("var", [(float("nan"),) * 3, (float("inf"), float("nan"), float("-inf")), ()])
def test_without_a_finite_variance_none_is_zero(var: Any) -> None:
    assert run(part([batch_norm(var=var, eps=0.0)])) == []


@pytest.mark.parametrize("kind", [NormKind.FROZEN_BATCH, NormKind.UNKNOWN, NormKind.INSTANCE])
def test_any_norm_that_keeps_statistics_is_looked_at(kind: NormKind) -> None:
    assert len(run(part([batch_norm(kind=kind, var=(1, -1, 1))]))) == 1


def test_the_worst_channels_come_first() -> None:
    (hit,) = run(part([batch_norm(mean=[0.0] * 20, var=[-float(i) for i in range(20)], gamma=None, beta=None)]))
    assert hit.channels == tuple(range(19, 3, -1))


def test_swapped_tensors_are_named() -> None:
    rng = np.random.default_rng(0)
    mean, var = rng.normal(0, 2, 64), rng.uniform(0.1, 3, 64)
    (hit,) = run(part([batch_norm(mean=var, var=mean)]))
    assert "mean and variance swapped" in hit.message


def test_cancellation_is_named() -> None:
    rng = np.random.default_rng(1)
    data = rng.normal(rng.uniform(500, 1500, 64), 0.1, (1000, 64)).astype(np.float32)
    var = (data**2).mean(0) - data.mean(0) ** 2
    assert (var < 0).any()
    (hit,) = run(part([batch_norm(mean=data.mean(0), var=var)]))
    assert "E[x²] − E[x]² in float32" in hit.message


def test_a_subtracted_epsilon_is_named() -> None:
    rng = np.random.default_rng(2)
    var = np.append(rng.uniform(0.1, 3, 60), [0.0, 1e-7, 3e-6, 0.0])
    mean = np.append(rng.normal(0, 1, 60), [0.0, 0.01, -0.1, 0.001])
    (hit,) = run(part([batch_norm(mean=mean, var=var - 1e-5)]))
    assert "an epsilon subtracted" in hit.message
    assert hit.severity is Severity.ERROR


def test_no_signature_no_cause() -> None:
    (hit,) = run(part([batch_norm(mean=(-1, 0, 1), var=(-1.9, 2, 3))]))
    assert ";" not in hit.message


@given(
    mean=st.lists(st.floats(allow_nan=True, width=32), min_size=1, max_size=5),
    var=st.lists(st.floats(allow_nan=True, width=32), min_size=1, max_size=5),
    eps=st.sampled_from([None, 0.0, 1e-5, 1e-3]),
)
def test_a_hit_is_a_finite_negative_variance(mean: list[float], var: list[float], eps: float | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(part([batch_norm(mean=mean, var=var, eps=eps)]))
    finite = [value for value in var if np.isfinite(value)]
    expected = any(value < 0 or (eps == 0.0 and value == 0) for value in finite)
    assert bool(found) is expected


def test_the_pages_arithmetic() -> None:
    gains = [arithmetic.fold(np.zeros(1), np.array([v]), eps=1e-5).gain[0] for v in (0.0, -0.9e-5)]
    assert [round(gain) for gain in gains] == [316, 1000]
    norm = torch.nn.BatchNorm1d(1).double().eval()
    norm.running_var.fill_(-2e-5)
    assert norm(torch.ones(1, 1, dtype=torch.float64)).isnan().all()
    assert np.spacing(np.float32(1e6)) == 0.0625


def test_zero_with_epsilon_zero_is_told_as_such() -> None:
    (hit,) = run(part([batch_norm(var=(1, 0, 2), eps=0.0)]))
    assert hit.message.endswith("no root to divide by; variance 0 with epsilon 0")
    assert (hit.limit, hit.channels) == (0.0, (1,))


@pytest.mark.parametrize(
    ("var", "limit", "channels", "consequence"),
    [
        ((1e-6, -2e-5, -1e-5), -1e-5, (1, 2), "no root to divide by"),
        ((1e-6, -2e-5, -0.5e-5), -1e-5, (1,), "no root to divide by"),
        ((0.0, -0.5e-5, 0.5), 0, (1,), "epsilon still lifts it above 0"),
        ((float("-inf"), -1.0, float("nan")), -1e-5, (1,), "no root to divide by"),
    ],
)
def test_the_channels_are_those_beyond_the_limit(
    var: tuple[float, ...], limit: float, channels: tuple[int, ...], consequence: str
) -> None:
    (hit,) = run(part([batch_norm(mean=None, var=var, eps=1e-5)]))
    assert (hit.limit, hit.channels) == (limit, channels)
    assert hit.message == f"lowest running variance below 0: {consequence}"


SUBTRACTED, CANCELLED, SWAPPED = (
    "it fits an epsilon subtracted from it",
    "it fits E[x²] − E[x]² in float32",
    "it fits mean and variance swapped",
)


@pytest.mark.parametrize(
    ("mean", "var", "cause"),
    [
        # √−var up to a hundredth of the mean, in every channel below 0
        ((-1000, 1), (-100.0, 1), CANCELLED),
        ((-1000, 1), (-95.0, 1), CANCELLED),
        ((-1000, 1), (-105.0, 1), ""),
        ((-1000, -1), (-95.0, -95.0), ""),
        # not below −1.001 epsilon, with a mean below 1 in one of the channels below 0
        ((-0.1, 2), (-1.001 * 1e-5, 1), SUBTRACTED),
        ((-0.1, 2), (-1.05e-5, 1), ""),
        ((-0.95, 2), (-0.5e-5, 1), SUBTRACTED),
        ((-1.0, 2), (-0.5e-5, 1), CANCELLED),
        ((-1.05, 2), (-0.5e-5, 1), CANCELLED),
        ((-500, -0.5), (-0.5e-5, -0.5e-5), SUBTRACTED),
        ((0.0, -500), (0.0, -0.5e-5), CANCELLED),
        # no mean below 0, and one above
        ((0.0, 1.0), (-1.9, 2.0), SWAPPED),
        ((0.0, 0.0), (-1.9, 2.0), ""),
        # channels that are not finite say nothing
        ((0.5, 1, float("-inf")), (-1.9, 2, 3), SWAPPED),
        ((0.5, -1, 2), (-1.9, float("-inf"), 3), SWAPPED),
    ],
)
def test_each_cause_has_its_signature(mean: tuple[float, ...], var: tuple[float, ...], cause: str) -> None:
    (hit,) = run(part([batch_norm(mean=mean, var=var, gamma=None, beta=None, eps=1e-5)]))
    assert hit.message.partition("; ")[2] == cause
