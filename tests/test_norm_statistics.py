"""Estimators from per-sample moments against all values at once, and their errors against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bnaudit.gap_limits import moved
from bnaudit.measurement import LayerStatistics
from bnaudit.norm_statistics import (
    Moments,
    against_stored,
    between_populations,
    jackknife_error,
    joined,
    merged,
    rms_error,
    stacked,
    student,
)

Array = NDArray[np.float64]
EPS = 1e-5


def moments(values: Array) -> Moments:
    """Of (samples, values, channels)."""
    return Moments(values.mean(axis=1), values.var(axis=1), values.shape[1])


@given(samples=st.integers(2, 9), values=st.integers(1, 9), offset=st.sampled_from([0.0, 1000.0, -1e6]))
def test_merged_moments_are_those_of_all_values(samples: int, values: int, offset: float) -> None:
    data = np.random.default_rng(samples * 10 + values).normal(offset, 0.1, (samples, values, 3))
    found = merged(moments(data))
    flat = data.reshape(-1, 3)
    np.testing.assert_allclose(found.mean, flat.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.var, flat.var(axis=0, ddof=1), rtol=1e-6)


def test_populations_join_by_their_number_of_values_and_forwards_stack() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.normal(0, 1, (5, 4, 2)), generator.normal(3, 2, (5, 12, 2))
    both = joined([moments(one), moments(other)])
    np.testing.assert_allclose(both.mean, moments(np.concatenate([one, other], axis=1)).mean)
    np.testing.assert_allclose(both.var, moments(np.concatenate([one, other], axis=1)).var)
    further = generator.normal(0, 1, (3, 4, 2))
    np.testing.assert_allclose(
        merged(stacked([moments(one), moments(further)])).var,
        np.concatenate([one, further]).reshape(-1, 2).var(axis=0, ddof=1),
    )


def test_what_is_compared_is_the_rms_shift_and_the_median_log_ratio() -> None:
    data = np.random.default_rng(1).normal(size=(20, 8, 5))
    flat = data.reshape(-1, 5)
    mean, var = np.array([0.1, -0.3, 0.2, 0.0, 5.0]), np.array([1.0, 4.0, 0.5, 2.0, 1e-7])
    found = against_stored(moments(data), mean, var, EPS)
    live = slice(0, 4)
    shifts = (flat.mean(axis=0) - mean)[live] / np.sqrt(var[live])
    ratios = np.abs(np.log(flat.var(axis=0, ddof=1)[live] / var[live]))
    assert found.live == 4
    assert found.shift == pytest.approx(math.sqrt((shifts**2).mean()))
    assert found.log_ratio == pytest.approx(float(np.median(ratios)), rel=1e-4)
    assert found.worst_shift == pytest.approx(float(np.abs(shifts).max())) and 4 not in found.worst


def test_pruned_channels_are_not_live_unless_all_are() -> None:
    data = np.random.default_rng(4).normal(size=(16, 9, 6))
    data[:, :, :4] = np.array([0.0, 0.1, -1e3, 7.7])
    mean, var = np.zeros(6), np.ones(6)
    found = against_stored(moments(data), mean, var, EPS)
    assert found.live == 2 and found.log_ratio < math.log(2) and set(found.worst) == {4, 5}
    constant = against_stored(moments(data[:, :, :4]), mean[:4], var[:4], EPS)
    assert constant.live == 4 and constant.log_ratio > math.log(1e4)


def test_the_jackknife_is_the_one_computed_by_leaving_each_sample_out() -> None:
    data = np.random.default_rng(2).normal(size=(9, 4, 3))
    mean, var = np.zeros(3), np.full(3, 1.7)
    each = [against_stored(moments(np.delete(data, at, axis=0)), mean, var, EPS).log_ratio for at in range(9)]
    expected = math.sqrt(8 / 9 * ((np.array(each) - np.mean(each)) ** 2).sum())
    assert against_stored(moments(data), mean, var, EPS).log_ratio_error == pytest.approx(expected)
    assert jackknife_error(np.ones(2)) is None


def test_the_error_of_one_channel_is_that_of_its_mean_and_a_quarter_of_the_floor() -> None:
    deviations = np.random.default_rng(3).normal(0.8, 0.5, (12, 1))
    squared = float(deviations.var(ddof=1)) / 12
    assert rms_error(deviations) == pytest.approx(student(12) * math.sqrt(squared * 1.25))
    assert rms_error(deviations[:1]) == math.inf


@pytest.mark.parametrize("channels", [1, 4, 64])
def test_the_error_is_how_the_rms_of_a_true_shift_scatters(channels: int) -> None:
    generator = np.random.default_rng(channels)
    draws = [generator.normal(1.0, 1.0, (64, channels)) for _ in range(400)]
    scatter = float(np.std([math.sqrt((draw.mean(axis=0) ** 2).mean()) for draw in draws]))
    floor = 0.25 / 64
    expected = student(64) * math.sqrt(scatter**2 + floor)
    assert float(np.mean([rms_error(draw) for draw in draws])) == pytest.approx(expected, rel=0.1)


def test_students_factor_is_his_quantile() -> None:
    from scipy import stats

    for samples in (8, 16, 32, 256):
        assert 4 * student(samples) == pytest.approx(stats.t.isf(stats.norm.sf(4), samples - 1), rel=0.02)


def test_populations_are_compared_in_pairs_of_the_same_samples() -> None:
    generator = np.random.default_rng(4)
    shared = generator.normal(0, 5, (20, 1, 4))
    one, other = shared + generator.normal(size=(20, 9, 4)), shared + generator.normal(size=(20, 9, 4)) + 2.0
    found = between_populations(moments(one), moments(other), EPS)
    pooled = math.sqrt(26.0)
    assert found.shift == pytest.approx(2.0 / pooled, rel=0.2)
    assert found.shift_error < 0.1, "what samples share must not count as scatter of the difference"


def drawn(
    generator: np.random.Generator, samples: int, shape: tuple[int, int, float], by: tuple[float, float]
) -> Moments:
    """Normal features, (channels, places, effective share): values of one sample are correlated."""
    channels, places, effective = shape
    within = (1 / effective - 1) / (places - 1)
    own, each = generator.normal(size=(samples, 1, channels)), generator.normal(size=(samples, places, channels))
    return moments((math.sqrt(within) * own + math.sqrt(1 - within) * each) * math.sqrt(by[1]) + by[0])


def hit(found: Moments) -> bool:
    channels = found.mean.shape[1]
    compared = against_stored(found, np.zeros(channels), np.ones(channels), EPS)
    layer = LayerStatistics(
        layer="bn",
        position=0,
        samples=found.mean.shape[0],
        channels=channels,
        live=compared.live,
        mean_shift=compared.shift,
        mean_error=compared.shift_error,
        variance_ratio=math.exp(compared.log_ratio),
        log_variance=compared.log_ratio,
        log_variance_error=compared.log_ratio_error,
        worst=compared.worst,
        worst_shift=compared.worst_shift,
        synthetic=False,
    )
    return moved(layer).proved


SHAPES = [(8, 49, 0.03), (16, 64, 0.1), (64, 49, 0.03), (32, 9, 0.6)]


@pytest.mark.parametrize("samples", [4, 8, 16, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_perfect_statistics_raise_no_alarm(samples: int, shape: tuple[int, int, float]) -> None:
    generator = np.random.default_rng(samples)
    assert not any(hit(drawn(generator, samples, shape, (0.0, 1.0))) for _ in range(400))


@pytest.mark.parametrize("by", [(1.0, 1.0), (0.0, 4.0), (0.0, 0.25)], ids=["1 sd", "variance × 4", "variance ÷ 4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_off_is_found_with_16_samples(shape: tuple[int, int, float], by: tuple[float, float]) -> None:
    generator = np.random.default_rng(5)
    assert all(hit(drawn(generator, 16, shape, by)) for _ in range(50))


@pytest.mark.parametrize("shape", SHAPES)
def test_half_the_limit_is_silent_and_twice_the_limit_is_found(shape: tuple[int, int, float]) -> None:
    generator = np.random.default_rng(6)
    half, twice = [(0.25, 1.0), (0.0, math.sqrt(2.0))], [(1.0, 1.0), (0.0, 4.0)]
    assert not any(hit(drawn(generator, 32, shape, by)) for by in half for _ in range(100))
    assert all(hit(drawn(generator, 32, shape, by)) for by in twice for _ in range(100))
