"""Differences within the directions of draws, and outside of them."""

from __future__ import annotations

import numpy as np
import pytest

from bnaudit.likeness.shared import direction

ROWS, COLUMNS = 40, 8


def plane(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """A generator, scores as saved, and three directions in which a state moves them."""
    generator = np.random.default_rng(seed)
    return generator, generator.normal(size=(ROWS, COLUMNS)), generator.normal(size=(3, ROWS, COLUMNS))


def moved(saved: np.ndarray, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return saved + np.tensordot(weights, directions, 1)


@pytest.mark.parametrize("seed", range(6))
def test_what_lies_among_draws_fits(seed: int) -> None:
    generator, saved, directions = plane(seed)
    draws = np.stack([moved(saved, directions, generator.uniform(0, 1, 3)) for _ in range(15)])
    found = direction(moved(saved, directions, np.array([0.4, 0.5, 0.6])), draws, saved, 1e-6)
    assert found.held == pytest.approx(1)
    assert found.fits


@pytest.mark.parametrize("seed", range(6))
def test_what_lies_outside_or_goes_further_does_not(seed: int) -> None:
    generator, saved, directions = plane(seed)
    draws = np.stack([moved(saved, directions, generator.uniform(0, 1, 3)) for _ in range(15)])
    other = saved + generator.normal(size=saved.shape)
    assert direction(other, draws, saved, 1e-6).held < 0.2
    assert not direction(other, draws, saved, 1e-6).fits
    far = direction(moved(saved, directions, np.array([9.0, 9.0, 9.0])), draws, saved, 1e-6)
    assert far.held == pytest.approx(1)
    assert not far.fits


def test_what_rounding_leaves_is_not_held_against_it() -> None:
    generator, saved, directions = plane(1)
    draws = np.stack([moved(saved, directions, generator.uniform(0, 1, 3)) for _ in range(15)])
    seen = np.round(moved(saved, directions, np.array([0.5, 0.5, 0.5])), 1)
    assert direction(seen, draws, saved, 0.1 / np.sqrt(12)).held > 0.99


def test_few_values_are_never_held_by_as_many_directions() -> None:
    generator = np.random.default_rng(0)
    saved = generator.normal(size=(4, 4))
    draws = saved + generator.normal(size=(20, 4, 4))
    assert not direction(saved + generator.normal(size=(4, 4)), draws, saved, 0.0).fits


def test_the_nearest_draw_is_named() -> None:
    _, saved, directions = plane(2)
    draws = np.stack([moved(saved, directions, np.array([w, 0, 0])) for w in (0.1, 0.5, 2.0)])
    assert direction(moved(saved, directions, np.array([0.52, 0, 0])), draws, saved, 0.0).nearest == 1


def test_draws_that_change_nothing_hold_nothing() -> None:
    saved = np.ones((10, 8))
    assert not direction(saved + 1, np.stack([saved, saved]), saved, 0.0).fits
