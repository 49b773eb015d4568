"""What looks like noise of one level, and what has a pattern."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.triage.noise import is_noise

SCORES = np.random.default_rng(7).normal(size=(24, 10)) * 4
COLUMN = np.zeros((1, 10))
COLUMN[0, 3] = 2e-3
PATTERNS = {
    "gain": 1e-3 * SCORES,
    "offset": np.full(SCORES.shape, 1e-3),
    "one column": np.repeat(COLUMN, 24, axis=0),
    "one row": np.eye(24)[:, :1] @ np.full((1, 10), 5e-3),
    "one direction": np.random.default_rng(1).normal(size=(24, 1))
    @ np.random.default_rng(2).normal(size=(1, 10))
    * 1e-3,
}


@given(st.integers(0, 10_000))
def test_noise_is_taken_for_noise(seed: int) -> None:
    assert is_noise(1e-3 * np.random.default_rng(seed).normal(size=SCORES.shape), SCORES)


def test_rounding_is_noise() -> None:
    assert is_noise(np.round(SCORES, 3) - SCORES, SCORES)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_no_noise(pattern: str) -> None:
    assert not is_noise(PATTERNS[pattern], SCORES)


def test_from_a_few_values_nothing_can_be_told() -> None:
    assert not is_noise(1e-3 * np.random.default_rng(0).normal(size=(3, 10)), SCORES[:3])
