from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from builders import part
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
