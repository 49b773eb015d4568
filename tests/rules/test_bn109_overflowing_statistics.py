from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from builders import batch_norm, hits, part
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.description import NormKind
from bnaudit.results import Severity
from bnaudit.rules import bn109_overflowing_statistics as bn109
from bnaudit.rules import load_rule

RULE = "bn109_overflowing_statistics"
run = partial(hits, RULE)
wide = partial(batch_norm, mean=[0.0] * 9, gamma=[1.0] * 9, beta=[0.0] * 9)


@pytest.mark.parametrize(
    ("changes", "value", "channel"),
    [
        ({"var": (1, 65505, 1)}, 65505, 1),
        ({"mean": (0, 0, -65505)}, 65505, 2),
        ({"var": (1, 1.7e7, 1), "mean": (1e5, 0, 0)}, 1.7e7, 1),
    ],
)
def test_values_beyond_the_largest_half(changes: dict[str, Any], value: float, channel: int) -> None:
    (hit,) = run(part([batch_norm(**changes)]))
    assert (hit.value, hit.limit, hit.channels[0], hit.severity) == (value, 65504.0, channel, Severity.NOTE)


def test_the_limit_is_the_largest_float16_itself() -> None:
    assert float(np.finfo(np.float16).max) == 65504.0
    assert run(part([batch_norm(mean=(65504, 0, 0), var=(65504, 65504, 30000), eps=1e-5)])) == []


def test_a_folded_gain_or_shift_beyond_it() -> None:
    (hit,) = run(part([batch_norm(var=(1e-10, 1, 1), gamma=(1, 1, 1), eps=1e-12, mean=(0, 0, 0))]))
    assert "folded gain or shift" in hit.message
    assert hit.value == pytest.approx(1 / math.sqrt(1e-10 + 1e-12))
    (hit,) = run(part([batch_norm(mean=(60000, 0, 0), var=(0.25, 1, 1), gamma=(1, 1, 1), beta=(0, 0, 0))]))
    assert hit.value == pytest.approx(60000 / math.sqrt(0.25 + 1e-5))


def test_the_ratio_is_taken_over_live_channels() -> None:
    var = [1e-9, 1e-8, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 1001.0]
    (hit,) = run(part([wide(var=var)]))
    assert hit.channels == (8,)
    assert hit.value == pytest.approx(10010)
    assert run(part([wide(var=[*var[:-1], 999.0])])) == []


def test_dead_channels_have_no_median() -> None:
    assert run(part([wide(var=[1e-9] * 8 + [0.5])])) == []
    assert run(part([batch_norm(var=(1e-3, 20000, 1e-9))])) == []


@pytest.mark.parametrize(
    ("eps", "found"), [(1e-12, True), (1e-8, True), (0.99e-6, False), (1e-6, False), (None, False)]
)
def test_a_live_variance_that_vanishes_where_epsilon_is_tiny(eps: float | None, found: bool) -> None:
    result = run(part([batch_norm(var=(5.9e-8, 1, 1), mean=(0, 0, 0), gamma=(1, 1, 1), eps=eps)]))
    assert bool(result) is found
    assert all(hit.value == 5.9e-8 and hit.channels == (0,) for hit in result)
    assert run(part([batch_norm(var=(6.1e-8, 1, 1), mean=(0, 0, 0), gamma=(1, 1, 1), eps=eps)])) == []


def test_a_layer_stored_in_half_precision_is_a_warning() -> None:
    layer = wide(var=[0.1] * 8 + [2000.0], dtype="float16")
    (hit,) = run(part([layer]))
    assert hit.severity is Severity.WARNING


def test_healthy_wide_spreads_are_silent() -> None:
    var = np.exp(np.random.default_rng(0).normal(0, 1.2, 512))
    assert var.max() / np.median(var) > 20
    assert run(part([batch_norm(mean=np.zeros(512), var=var, gamma=np.ones(512), beta=np.zeros(512))])) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": None},
        {"var": None},
        {"mean": (), "var": (), "gamma": None, "beta": None},
        {"mean": (), "gamma": None, "beta": None},
        {"var": (), "gamma": None, "beta": None},
        {"var": (1e9, 1, 1), "gamma": ()},
        {"var": (1e9, 1, 1), "beta": ()},
        {"gamma": ()},
        {"beta": ()},
        {"var": (1e9, 1, 1), "gamma": (1, 1)},
        {"var": (1e9, 1, 1), "beta": (1, 1)},
        {"var": (1e9, 1, 1), "mean": (1, 1)},
    ],
)
def test_missing_statistics_are_unknown(changes: dict[str, Any]) -> None:
    assert run(part([batch_norm(**changes)])) == []


def test_tensors_of_different_lengths_are_left_to_bn114() -> None:
    assert run(part([batch_norm(var=(1e9, 1), mean=(0, 0, 0))])) == []


def test_layers_without_statistics_are_silent() -> None:
    assert run(part([batch_norm(mean=None, var=None, counter=None, kind=NormKind.LAYER, gamma=(1e9, 1, 1))])) == []


@given(data=st.data(), eps=st.sampled_from([None, 0.0, 1e-12, 1e-5]))
def test_hostile_values_raise_and_warn_of_nothing(data: st.DataObject, eps: float | None) -> None:
    anything = st.lists(st.floats(width=32), min_size=3, max_size=3)
    mean, var, gamma, beta = (data.draw(anything) for _ in range(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for hit in run(part([batch_norm(mean=mean, var=var, gamma=gamma, beta=beta, eps=eps)])):
            assert math.isfinite(float(hit.value))  # type: ignore[arg-type]


_WIDE = st.floats(-8, 8).map(lambda exponent: 10.0**exponent) | st.just(0.0)


@given(
    mean=st.lists(_WIDE, min_size=4, max_size=4),
    var=st.lists(_WIDE, min_size=4, max_size=4),
    gamma=st.lists(_WIDE, min_size=4, max_size=4) | st.none(),
    eps=st.sampled_from([None, 1e-5, 1e-3]),
)
def test_the_short_cut_passes_over_nothing(
    mean: list[float], var: list[float], gamma: list[float] | None, eps: float | None
) -> None:
    layer = batch_norm(mean=mean, var=var, gamma=gamma, beta=None, eps=eps)
    epsilon, limits = eps or 1e-5, load_rule(RULE).limits
    channels = bn109._usable(layer, epsilon)
    assert channels is not None
    if bn109._is_plainly_inside(layer, epsilon, limits):
        assert not any(excess.bad.any() for excess in bn109._cases(layer, channels, epsilon, limits))


def test_the_pages_arithmetic() -> None:
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(1.7e7).astype(np.float16))
    assert np.float16(2e-8) == 0
    gains = [1 / math.sqrt(var + eps) for var, eps in ((2e-8, 1e-12), (0, 1e-12), (2e-8, 1e-5), (0, 1e-5))]
    assert [round(gain) for gain in gains] == [7071, 1_000_000, 316, 316]
    assert f"{gains[3] / gains[2] - 1:.1%}" == "0.1%"


TINY = 1e-7
"""An epsilon with which no short cut is taken."""


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": (65504, 0, 0), "var": (65504, 65504, 30000), "eps": TINY},
        {"mean": (0, 0, 0), "var": (1, 1, 1), "gamma": (65504, 1, 1), "beta": (0, 0, 0), "eps": 0.0},
        {"mean": (0, 0, 0), "var": (1, 1, 1e4), "eps": TINY},
        {"mean": (0, 0, 0), "var": (6e-8, 1, 1), "gamma": (1, 1, 1), "eps": 1e-12},
        {"var": (float("inf"), 1, 1)},
        {"gamma": (float("inf"), 1, 1)},
        {"beta": (1, float("-inf"), 1)},
        {"mean": (0, 0, 0), "var": (-1.0, 0.05, 0.05)},
    ],
)
def test_what_is_exactly_at_a_limit_or_not_finite_is_silent(changes: dict[str, Any]) -> None:
    assert run(part([batch_norm(**changes)])) == []


@pytest.mark.parametrize(
    ("changes", "value", "channels"),
    [
        # gamma / √var = 10, times the mean; alone, neither is beyond
        ({"mean": (6600, 0, 0), "var": (100, 100, 100), "gamma": (100, 1, 1), "beta": (0, 0, 0)}, 66000, (0,)),
        ({"mean": (60000, 0, 0), "var": (1, 1, 1), "gamma": (1, 1, 1), "beta": (-6000, 0, 0)}, 66000, (0,)),
        ({"var": (0, 1, 1), "gamma": (1000, 1, 1), "mean": (0, 0, 0)}, 1000 / 1e-5**0.5, (0,)),
        ({"var": (1, 1, 1), "gamma": (float("nan"), 70000, 1), "mean": (0, 0, 0)}, 70000, (1,)),
        ({"var": (-1.0, 1, 70000), "mean": (0, 0, 0)}, 70000, (2,)),
        ({"var": (0.1, 0.1, 2000), "mean": (0, 0, 0)}, 20000, (2,)),
    ],
)
def test_no_short_cut_hides_an_excess(changes: dict[str, Any], value: float, channels: tuple[int, ...]) -> None:
    (hit,) = run(part([batch_norm(**changes)]))
    assert (hit.value, hit.channels) == (pytest.approx(value, rel=1e-4), channels)


@pytest.mark.parametrize("eps", [math.inf, math.nan, None, 1e-5])
def test_an_epsilon_that_is_not_finite_is_unknown(eps: float | None) -> None:
    (hit,) = run(part([wide(var=[0.1] * 8 + [2000.0], eps=eps)]))
    assert hit.channels == (8,)


def test_a_variance_of_epsilon_is_dead() -> None:
    assert run(part([wide(var=[0.5] * 8 + [6000.0], eps=0.5)])) == []
    assert len(run(part([wide(var=[0.51] * 8 + [6000.0], eps=0.5)]))) == 1


def test_of_two_live_variances_neither_is_the_usual_one() -> None:
    layer = batch_norm(var=(1, 5, 0), mean=(0, 0, 0))
    assert run(part([layer]), limits={"ratio": 1.5}) == []
    (hit,) = run(part([batch_norm(var=(1, 3, 3.5), mean=(0, 0, 0))]), limits={"ratio": 1.1})
    assert hit.value == pytest.approx(3.5 / 3)
    (hit,) = run(part([wide(mean=[0] * 4, gamma=None, beta=None, var=[1, 3, 5, 9])]), limits={"ratio": 1.5})
    assert (hit.value, hit.channels) == (9 / 4, (3,))


@pytest.mark.parametrize(("eps", "found"), [(0.99e-6, 1), (1e-6, 0), (2e-6, 0)])
def test_a_vanishing_variance_matters_below_the_small_epsilon_alone(eps: float, found: int) -> None:
    layer = batch_norm(var=(1e-4, 1, 2), mean=(0, 0, 0), gamma=(1, 1, 1), eps=eps)
    assert len(run(part([layer]), limits={"smallest_half": 1e-3})) == found


def test_sixteen_channels_are_shown() -> None:
    (hit,) = run(part([batch_norm(mean=[0] * 20, var=[70000.0 + i for i in range(20)], gamma=None, beta=None)]))
    assert hit.channels == tuple(range(19, 3, -1))


def test_of_vanishing_variances_the_smallest_is_the_worst() -> None:
    layer = batch_norm(var=(5e-8, 2e-8, 3e-8), mean=(0, 0, 0), gamma=(1, 1, 1), eps=1e-12)
    (hit,) = run(part([layer]))
    assert (hit.value, hit.channels) == (2e-8, (1, 2, 0))
