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
