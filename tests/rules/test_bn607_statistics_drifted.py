from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from builders import part
from compared import compared_hits, trained

from bnaudit.results import Severity

run = partial(compared_hits, "bn607_statistics_drifted")


def test_training_in_between_is_told_per_layer() -> None:
    hits = run(part([trained("a", seed=1), trained("b", seed=2)]), part([trained("a"), trained("b")]))
    assert [hit.layer for hit in hits] == ["a", "b"]
    assert all("statistics moved: mean by" in hit.message and "weight and bias by" in hit.message for hit in hits)


def test_a_layer_as_it_was_built_is_a_warning_and_its_training_is_none() -> None:
    built = trained(mean=np.zeros(8), var=np.ones(8), gamma=np.ones(8), beta=np.zeros(8))
    (hit,) = run(part([built]), part([trained()]))
    assert hit.severity is Severity.WARNING and "they are the initial ones: nothing was loaded" in hit.message
    (hit,) = run(part([trained()]), part([built]))
    assert hit.severity is None and "initial" not in hit.message


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_broke_on_the_way_are_counted_and_a_warning(value: float) -> None:
    mean = np.linspace(-1, 1, 8)
    mean[[2, 5]] = value
    (hit,) = run(part([trained(seed=1, mean=mean)]), part([trained()]))
    assert hit.severity is Severity.WARNING and hit.message.endswith("; 2 values are not finite any more")
    (hit,) = run(part([trained(seed=1)]), part([trained(mean=mean)]))
    assert hit.severity is None and "finite" not in hit.message


def test_what_stood_still_is_silent() -> None:
    assert run(part([trained()]), part([trained()])) == []
    assert run(part([trained(gamma=np.ones(8))]), part([trained()])) == []
    assert run(part([trained(mean=np.zeros(8))]), part([trained()])) == []


def test_a_norm_without_affine_has_no_weights_that_stand_still() -> None:
    bare = {"gamma": None, "beta": None}
    (hit,) = run(part([trained(seed=1, **bare)]), part([trained(**bare)]))
    assert "weight" not in hit.message


def test_unknown_statistics_are_silent() -> None:
    assert run(part([trained(seed=1, mean=None)]), part([trained()])) == []


def test_the_pages_arithmetic() -> None:
    two = {"gamma": (1.0, 2.0), "beta": (0.5, 0.5)}
    subject = trained(mean=(2.0, 5.0), var=(8.0, 9.0), gamma=(1.5, 2.0), beta=(0.5, 0.5))
    (hit,) = run(part([subject]), part([trained(mean=(1.0, 2.0), var=(4.0, 9.0), **two)]))
    assert hit.value == pytest.approx(np.sqrt((0.5**2 + 1) / 2), rel=1e-3)
    assert "mean by 0.791 sd, variance by a factor of 1.5" in hit.message


INITIAL = {"mean": np.zeros(8), "var": np.ones(8)}


def test_each_reading_has_its_advice_and_the_channels_that_moved_most() -> None:
    built = trained(**INITIAL, gamma=np.ones(8), beta=np.zeros(8))
    broken = np.linspace(-1, 1, 8)
    broken[2] = np.nan
    for subject, begins in (
        (built, "load the weights with strict=True"),
        (trained(seed=1, mean=broken), "take a checkpoint from before"),
        (trained(seed=1), "nothing to do where it was trained"),
    ):
        (hit,) = run(part([subject]), part([trained()]))
        assert hit.advice.startswith(begins) and hit.channels


@pytest.mark.parametrize(
    "changes",
    [
        {**INITIAL, "gamma": np.full(8, 1.5), "beta": np.full(8, 0.5)},
        {"mean": np.full(8, 0.5), "gamma": np.ones(8), "beta": np.zeros(8)},
    ],
)
def test_a_layer_of_which_one_half_was_trained_was_loaded(changes: dict[str, np.ndarray]) -> None:
    (hit,) = run(part([trained(**changes)]), part([trained()]))
    assert hit.severity is None and "initial" not in hit.message
