"""Draws and what is none, made with NumPy so that the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from bnaudit.likeness.rowwise import likeness

ROWS, COLUMNS = 48, 6
SEEDS = range(12)


class Cause:
    """Scores that scatter about a shifted centre, with a covariance and a scatter of each input's own."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.saved = self.generator.normal(size=(ROWS, COLUMNS))
        self.shift = 2 * self.generator.normal(size=(ROWS, COLUMNS))
        self.scatter = np.exp(self.generator.normal(size=(ROWS, 1)))
        self.mixing = self.generator.normal(size=(COLUMNS, COLUMNS)) * [3, 2, 1, 0.5, 0.25, 0.1]

    def draw(self, scale: float = 1.0) -> np.ndarray:
        noise = self.generator.normal(size=(ROWS, COLUMNS)) @ self.mixing.T
        return self.saved + self.shift + scale * self.scatter * noise

    def draws(self, count: int = 20) -> np.ndarray:
        return np.stack([self.draw() for _ in range(count)])


def test_one_more_draw_fits() -> None:
    fitting = [likeness(cause.draw(), cause.draws(), cause.saved).fits for cause in map(Cause, SEEDS)]
    assert sum(fitting) >= len(fitting) - 2, "a few may be beyond three standard deviations"


@pytest.mark.parametrize("seed", SEEDS)
def test_another_scale_does_not_fit(seed: int) -> None:
    cause = Cause(seed)
    assert not likeness(cause.draw(2.0), cause.draws(), cause.saved).fits
    assert not likeness(cause.draw(0.5), cause.draws(), cause.saved).fits


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_of_the_same_size_in_other_directions_does_not_fit(seed: int) -> None:
    cause = Cause(seed)
    draws = cause.draws()
    size = np.sqrt(((draws - draws.mean(0)) ** 2).mean())
    noise = cause.generator.normal(size=(ROWS, COLUMNS)) * size
    assert not likeness(cause.saved + cause.shift + noise, draws, cause.saved).fits


@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_as_saved_does_not_fit_where_the_centre_is_shifted(seed: int) -> None:
    cause = Cause(seed)
    cause.shift *= 3
    assert not likeness(cause.saved, cause.draws(), cause.saved).fits


def test_values_that_were_not_logged_do_not_count() -> None:
    cause = Cause(0)
    seen, draws = cause.draw(), cause.draws()
    seen[::3, 0] = np.nan
    found = likeness(seen, draws, cause.saved)
    assert np.isfinite([found.inside, found.expected, found.distance, found.worst]).all()
    assert 0.8 < found.inside <= 1


def test_one_column_and_many_columns_are_judged() -> None:
    generator = np.random.default_rng(1)
    for columns in (1, 200):
        draws = generator.normal(size=(20, 30, columns))
        zeros = np.zeros((30, columns))
        assert likeness(generator.normal(size=(30, columns)), draws, zeros).worst < 4
        assert not likeness(10 * generator.normal(size=(30, columns)), draws, zeros).fits
