"""Whether what a replay leaves looks like noise of one level: the same in every row and column, and of no pattern."""

from __future__ import annotations

import numpy as np

from bnaudit.triage.scoring import Array

_FEWEST = 40
"""Values from which a pattern can be told."""
_SIGMAS = 4.5
"""How far a mean or a correlation of pure noise strays, in its own standard deviations, at most."""


def is_noise(left: Array, replayed: Array) -> bool:
    """left: (observations, columns) of observed − replayed, NaN where nothing was logged.

    False with fewer than 40 values or three rows: nothing can be told then.
    """
    known = np.isfinite(left) & np.isfinite(replayed)
    rows = known.all(axis=1)
    error, made = left[rows], replayed[rows]
    if error.size < _FEWEST or len(error) < 3:
        return False
    level = float(np.sqrt(np.mean(error**2)))
    return level > 0 and _is_centred(error, level) and _is_unrelated(error, made, level) and _is_even(error, level)


def _is_centred(error: Array, level: float) -> bool:
    """No column and no row has a mean of its own."""
    rows, columns = error.shape
    by_column = np.abs(error.mean(axis=0)).max() * np.sqrt(rows)
    by_row = np.abs(error.mean(axis=1)).max() * np.sqrt(columns) if columns > 1 else 0.0
    return bool(max(by_column, by_row) <= _SIGMAS * level)


def _is_unrelated(error: Array, made: Array, level: float) -> bool:
    """It does not grow with the scores, as a gain would, nor in size with their size."""
    deviation = made - made.mean()
    spread = float(np.sqrt(np.mean(deviation**2)))
    if spread == 0:
        return True
    gain = np.mean(error * deviation) / (level * spread)
    sizes = np.abs(error) - np.abs(error).mean()
    growth = np.mean(sizes * (np.abs(deviation) - np.abs(deviation).mean()))
    scale = sizes.std() * np.abs(deviation).std()
    limit = _SIGMAS / np.sqrt(error.size)
    return bool(abs(gain) <= limit and (scale == 0 or abs(growth) / scale <= limit))


def _is_even(error: Array, level: float) -> bool:
    """One level in every row and column, tails as light as noise's, and no direction with more than its share."""
    rows, columns = error.shape
    squares = (error / level) ** 2
    light = squares.max() <= (_SIGMAS + 0.5) ** 2
    by_row = np.abs(squares.mean(axis=1) - 1).max() <= _SIGMAS * np.sqrt(2 / columns) + 1 / columns
    by_column = np.abs(squares.mean(axis=0) - 1).max() <= _SIGMAS * np.sqrt(2 / rows) + 1 / rows
    largest = np.linalg.svd(error, compute_uv=False)[0]
    flat = largest <= 1.15 * level * (np.sqrt(rows) + np.sqrt(columns))
    return bool(light and by_row and by_column and flat)
