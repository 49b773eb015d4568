"""Conditions that BN403 and BN404 share."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from measured import statistics

from bnaudit.gap_limits import Evidence, StatisticsLimits, moved

numbers = st.floats(0, 10, allow_nan=False)


@given(shift=numbers, error=numbers, samples=st.integers(1, 64))
def test_the_mean_is_off_exactly_when_size_error_and_samples_say_so(shift: float, error: float, samples: int) -> None:
    found = moved(statistics(mean_shift=shift, mean_error=error, samples=samples)).mean
    assert (found is Evidence.BEYOND) == (shift > 0.5 and shift > 4 * error and samples >= 8)
    assert (found is Evidence.TOO_FEW) == (shift > 0.5 and samples < 8)


@given(log_ratio=st.floats(0, 3), error=st.none() | numbers, samples=st.integers(1, 64))
def test_the_variance_needs_twice_as_many_samples(log_ratio: float, error: float | None, samples: int) -> None:
    given_ = statistics(ratio=math.exp(log_ratio), log_variance=log_ratio, log_variance_error=error, samples=samples)
    found = moved(given_).variance
    off = log_ratio > math.log(2) and samples >= 16
    assert (found is Evidence.BEYOND) == (off and error is not None and log_ratio > 4 * error)


def test_one_proof_is_enough_and_an_open_point_counts_only_without_one() -> None:
    both = moved(statistics(mean_shift=1.0, ratio=4.0, samples=8))
    assert (both.proved, both.open) == (True, False)
    only_variance = moved(statistics(ratio=4.0, samples=8))
    assert (only_variance.proved, only_variance.open) == (False, True)


def test_limits_can_be_given() -> None:
    assert not moved(statistics(mean_shift=1.0), StatisticsLimits(mean_shift=2.0)).proved


def test_a_ratio_limit_below_one_is_one_since_ratios_are_taken_either_way() -> None:
    # ln 1.5 = 0.405 is above ln 1 and four errors of 0.01; a ratio of exactly 1 is above no limit.
    off = statistics("a", 0, mean_shift=0.0, ratio=1.5, samples=16, log_variance_error=0.01)
    equal = statistics("a", 0, mean_shift=0.0, ratio=1.0, samples=16, log_variance_error=0.01)
    for limit in (0.0, 0.5, 1.0):
        assert moved(off, StatisticsLimits(variance_ratio=limit)).variance is Evidence.BEYOND
        assert moved(equal, StatisticsLimits(variance_ratio=limit)).variance is Evidence.WITHIN
