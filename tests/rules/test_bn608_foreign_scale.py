from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from builders import part, tensor
from compared import compared_hits, trained

from bnaudit.results import Hit

run = partial(compared_hits, "bn608_foreign_scale")


def times(mean: float, var: float, noise: float = 0.0, **changes: Any) -> Hit | None:
    layer = trained()
    random = np.random.default_rng(5)
    own = {
        "mean": np.array(layer.mean) * mean * (1 + noise * random.normal(size=8)),
        "var": np.array(layer.var) * var * (1 + noise * random.normal(size=8)),
    }
    return next(iter(run(part([trained(**own, **changes)]), part([layer]))), None)


def test_a_sum_that_was_not_divided_is_found() -> None:
    hit = times(100, 100)
    assert hit is not None and (hit.layer, hit.value) == ("bn1", 100.0)
    assert "both 100 × the baseline's" in hit.message


def test_divided_once_too_often() -> None:
    hit = times(1 / 64, 1 / 64)
    assert hit is not None and hit.value == pytest.approx(0.015625, rel=1e-3)
    assert "÷ 64" in hit.message


def test_other_weights_do_not_hide_it() -> None:
    assert times(100, 100, gamma=np.full(8, 2.0)) is not None


@pytest.mark.parametrize(("mean", "var"), [(2, 4), (1, 100), (100, 1), (-100, 100), (1.9, 1.9), (1, 1), (2, 2.6)])
def test_another_relation_is_silent(mean: float, var: float) -> None:
    assert times(mean, var) is None


def test_measured_on_other_data_still_fits_and_drift_does_not() -> None:
    assert times(44, 44, noise=0.1) is not None
    assert times(44, 44, noise=0.5) is None
    assert times(2.5, 2.5, noise=0.1) is None
    assert run(part([trained(seed=1)]), part([trained()])) == []


@pytest.mark.parametrize("factor", [3.0, 30.0, 1 / 64])
def test_an_exact_factor_is_found_on_means_that_are_small_beside_their_deviations(factor: float) -> None:
    layer = trained()
    mean = 0.02 * np.sqrt(np.array(layer.var)) * np.linspace(-1, 1, 8)
    small = trained(mean=mean)
    (hit,) = run(part([trained(mean=factor * mean, var=factor * np.array(layer.var))]), part([small]))
    assert hit.value == pytest.approx(factor, rel=1e-3)
    assert not run(part([trained(mean=mean, var=factor * np.array(layer.var))]), part([small]))


def test_dead_channels_have_no_factor() -> None:
    layer = trained()
    mean, var = np.array(layer.mean), np.array(layer.var)
    mean[:2], var[:2] = 0.0, (1e-20, 0.0)
    summed = trained(mean=44 * mean, var=44 * var * (np.arange(8) > 1))
    (hit,) = run(part([summed]), part([trained(mean=mean, var=var)]))
    assert hit.value == pytest.approx(44, rel=1e-3)


def test_two_channels_decide_nothing() -> None:
    one, other = {"mean": (100.0, 200.0), "var": (100.0, 300.0)}, {"mean": (1.0, 2.0), "var": (1.0, 3.0)}
    bare = {"gamma": (1.1, 0.9), "beta": (0.1, 0.2)}
    assert run(part([trained(**one, **bare)]), part([trained(**other, **bare)])) == []


def test_means_of_nothing_decide_nothing() -> None:
    flat, var = np.full(8, 1e-9), np.array(trained().var)
    assert run(part([trained(mean=100 * flat, var=100 * var)]), part([trained(mean=flat)])) == []


@pytest.mark.parametrize("ignored", [{"gamma": np.ones(8)}, {"gamma": None}])
def test_a_gamma_that_one_side_ignores_is_found(ignored: dict[str, Any]) -> None:
    (hit,) = run(part([trained(**ignored)]), part([trained()]))
    assert hit.message == "gamma is 1 throughout here, and trained on the other side"
    (hit,) = run(part([trained()]), part([trained(**ignored)]))
    assert hit.message == "gamma is 1 throughout in the baseline, and trained on the other side"


def test_a_gamma_of_1_before_training_is_not_ignored() -> None:
    fresh = trained(gamma=np.ones(8), beta=np.zeros(8), mean=np.zeros(8), var=np.ones(8), counter=0)
    assert run(part([trained()]), part([fresh])) == []
    assert run(part([fresh]), part([fresh])) == []


def test_what_is_not_known_is_silent() -> None:
    assert run(part([trained(mean=None, var=None)]), part([trained()])) == []
    assert run(part([trained(mean=(1.0, 2.0), var=(1.0, 2.0))]), part([trained()])) == []


def test_broken_values_are_silent() -> None:
    broken = {"mean": np.full(8, np.nan), "var": np.full(8, np.inf)}
    assert run(part([trained(**broken)]), part([trained()])) == []
    assert run(part([trained()]), part([trained(**broken)])) == []


def test_the_pages_arithmetic() -> None:
    assert (3 - 1) / 4**0.5 == 1
    assert abs((3 - 100) / 400**0.5 + 4.85) < 1e-9


def scaled(
    mean: Any, var: Any, factor: float, of_means: float | None = None, apart: float = 0.0, **limits: float
) -> list[float | int | str | None]:
    """The factors found where these statistics are multiplied, and each then moved by ± `apart`, relative."""
    mean, var = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
    signs = 1 + apart * np.where(np.arange(mean.size) % 2, 1, -1)
    bare = {"gamma": None, "beta": None}
    subject = trained(mean=mean * (factor if of_means is None else of_means) * signs, var=var * factor * signs, **bare)
    return [hit.value for hit in run(part([subject]), part([trained(mean=mean, var=var, **bare)]), limits=limits)]


def test_three_channels_are_enough() -> None:
    assert scaled((1, 2, 3), (1, 2, 3), 100) == [100]


@pytest.mark.parametrize(("factor", "found"), [(2.0, True), (0.5, True), (0.6, False), (1.9, False)])
def test_a_factor_exactly_at_the_limit_counts(factor: float, found: bool) -> None:
    assert scaled((1, 2, 3, 4), (1, 2, 3, 4), factor) == [factor] * found


def test_a_factor_of_two_is_a_sum() -> None:
    hit = times(2, 2)
    assert hit is not None and "both 2 × the baseline's" in hit.message


@pytest.mark.parametrize(("apart", "found"), [(0.48, True), (0.52, False)])
def test_however_large_the_factor_means_and_variances_agree_within_a_half(apart: float, found: bool) -> None:
    factor = math.exp(10)  # a tenth of its logarithm is 1
    assert bool(scaled((3, -4, 5, 6), (1, 1, 1, 1), factor, factor * math.exp(apart))) is found


@pytest.mark.parametrize(("apart", "found"), [(0.95e-3, True), (1.05e-3, False)])
def test_small_means_tell_a_factor_that_is_exact_within_a_thousandth(apart: float, found: bool) -> None:
    mean = 0.02 * np.array([1, -1, 0.7, -0.8])
    assert bool(scaled(mean, np.ones(4), 30, 30 * math.exp(apart))) is found


@pytest.mark.parametrize("deviation", [10.0, 0.1])
@pytest.mark.parametrize(("beyond", "found"), [(1.05, True), (0.95, False)])
def test_means_tell_a_factor_where_they_are_beyond_the_tolerance_in_deviations(
    deviation: float, beyond: float, found: bool
) -> None:
    tolerance = 0.1 * math.log(30)
    mean = np.full(4, beyond * tolerance * math.sqrt(deviation**2 + 1e-5))
    assert bool(scaled(mean, np.full(4, deviation**2), 30, apart=0.01)) is found


def test_one_mean_that_has_another_factor_is_enough_to_tell_it_from_a_sum() -> None:
    mean = np.array([0.0, 50, 50, -50, 50])
    own = 100 * mean + np.array([100 * 0.46 * 2, 0, 0, 0, 0])
    one = trained(mean=own, var=np.full(5, 100.0), gamma=None, beta=None)
    assert run(part([one]), part([trained(mean=mean, var=np.ones(5), gamma=None, beta=None)])) == []


def test_large_means_may_be_off_by_a_tenth() -> None:
    assert len(scaled((50, -50, 50, 50), (1, 1, 1, 1), 44, apart=0.1)) == 1


def test_without_a_tolerance_the_fit_has_to_be_exact() -> None:
    assert scaled((1, 2, 3, 4), (1, 2, 3, 4), 4, tolerance=0.0) == [4]
    assert scaled((1, 2, 3, 4), (1, 2, 3, 4), 4, apart=1e-6, tolerance=0.0) == []
    assert scaled((1, 2, 0, 0), (1, 2, 3, 4), 4, tolerance=0.0) == [], "two means tell nothing"


def test_means_of_zero_have_no_factor_and_small_numbers_have_one() -> None:
    assert scaled(np.zeros(4), (1, 2, 3, 4), 100) == []
    assert scaled((0.1, 0.2, 0.3, 0.4), (0.01, 0.02, 0.03, 0.04), 100) == [100]


def test_an_infinite_variance_has_no_factor() -> None:
    var = np.array(trained().var)
    var[3] = np.inf
    assert run(part([trained(mean=trained().mean * 2, var=var)]), part([trained()])) == []


def test_statistics_of_different_lengths_have_no_factor() -> None:
    torn = [trained(mean=np.arange(1.0, 9) * times, var=np.arange(1.0, 8) * times) for times in (100, 1)]
    assert run(part([torn[0]]), part([torn[1]])) == []


ONES, ZEROS, MOVED = np.ones(8), np.zeros(8), {"mean": np.full(8, 0.5), "var": np.full(8, 2.5)}


@pytest.mark.parametrize(
    ("subject", "baseline", "found"),
    [
        # the same statistics, or the same trained beta, show that it is the same layer
        ({"gamma": ONES, "beta": np.full(8, 0.3)}, {}, True),
        ({"gamma": ONES, **MOVED}, {}, True),
        ({"gamma": ONES, "beta": np.full(8, 0.3), **MOVED}, {}, False),
        ({"gamma": ONES, "beta": ZEROS, **MOVED}, {"beta": ZEROS}, False),
        ({"gamma": ONES, "beta": np.arange(8.0), **MOVED}, {"beta": np.arange(8.0)}, True),
        ({"gamma": None, "beta": None, **MOVED}, {}, False),
        ({}, {"gamma": None, "beta": None, **MOVED}, False),
        # 1 in every channel on one side, and trained on the other
        ({"gamma": ONES, "beta": ZEROS}, {"beta": ZEROS}, True),
        ({"gamma": ONES, "beta": ZEROS}, {"gamma": np.linspace(0.1, 0.9, 8), "beta": ZEROS}, False),
        ({"gamma": np.full(8, 2.0)}, {}, False),
        ({"gamma": np.array([1.0, *np.linspace(1.2, 1.9, 7)])}, {}, False),
    ],
)
def test_a_gamma_is_ignored_where_the_layer_is_the_same(subject: Any, baseline: Any, found: bool) -> None:
    hits = run(part([trained(**subject)]), part([trained(**baseline)]))
    assert ["gamma is 1" in hit.message for hit in hits] == [True] * found


def test_a_gamma_without_values_was_not_ignored() -> None:
    absent = tensor("bn1.weight", None, absence="offloaded")
    assert run(part([trained(gamma=ONES)]), part([trained(gamma=absent)])) == []
