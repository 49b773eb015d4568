"""Moments of a batch from those of its samples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.onnx_session.statistics import merged


@given(st.integers(1, 6), st.integers(1, 7), st.sampled_from([0.0, 1000.0]), st.integers(0, 99))
def test_merged_moments_are_those_of_all_values_at_once(samples: int, spatial: int, mean: float, seed: int) -> None:
    x = np.random.default_rng(seed).normal(mean, 0.1, (samples, 3, spatial))
    whole_mean, whole_var = merged(x.mean(2), x.var(2))
    np.testing.assert_allclose(whole_mean, x.mean((0, 2)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(whole_var, x.var((0, 2)), rtol=1e-7, atol=1e-15)
