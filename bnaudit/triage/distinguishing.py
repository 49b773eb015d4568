"""Inputs that would tell apart the hypotheses that fit: some of the given ones, or mixtures of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bnaudit.diagnosis import MARGIN, Distinguishing, Hypothesis
from bnaudit.errors import BnauditError
from bnaudit.feeds.pools import Pool
from bnaudit.triage.scoring import Array
from bnaudit.triage.trials import Trials

_MOST = 6
"""Hypotheses that are told apart at once."""
_ROWS = 8
"""Inputs that are named."""
_MADE = 48
"""Mixtures that are tried."""
_WEIGHTS = (0.5, 0.25, 0.75, 1.5)
"""Of the first input; above 1 the second is taken away."""


def distinguishing(trials: Trials, hypotheses: Sequence[Hypothesis], seed: int) -> Distinguishing | None:
    """The inputs on which any two of the hypotheses are furthest apart; None: none were found, or time is up."""
    chosen = list(hypotheses)[:_MOST]
    pool = trials.replayer.materials.pool
    try:
        apart, unit = _separation(trials, chosen, pool)
        order = np.argsort(-apart, kind="stable")[:_ROWS]
        rows = tuple(int(row) for row in order if apart[row] > unit)
        if rows and apart[rows[0]] >= MARGIN * unit:
            return Distinguishing(rows=rows, separation=float(apart[rows[0]] / unit))
        recipes = _recipes(pool.size, np.random.default_rng([seed, 31]))
        mixed = _mixed(pool, recipes)
        if mixed is None:
            return Distinguishing(rows=rows, separation=float(apart[rows[0]] / unit)) if rows else None
        apart, unit = _separation(trials, chosen, mixed)
    except BnauditError:
        return None
    best = [int(place) for place in np.argsort(-apart, kind="stable")[:_ROWS] if apart[place] > unit]
    if not best and not rows:
        return None
    mixtures = tuple(recipes[place] for place in best)
    return Distinguishing(rows=rows, mixtures=mixtures, separation=float(apart[best[0]] / unit) if best else 0.0)


def _separation(trials: Trials, hypotheses: Sequence[Hypothesis], pool: Pool) -> tuple[NDArray[np.float64], float]:
    """(inputs,): the smallest distance of any two hypotheses on each input, and what the precision leaves of it."""
    own = pool if all(each.batching not in ("requests", "companions") for each in hypotheses) else None
    made = [_replayed(trials, hypothesis, pool if own is None else own) for hypothesis in hypotheses]
    pairs = [_apart(one, other, trials.precision.is_labels) for one, other in combinations(made, 2)]
    floors = [trials.precision.floor(scores) for scores in made]
    return np.min(pairs, axis=0), 0.5 if trials.precision.is_labels else max(max(floors), 1e-30)


def _replayed(trials: Trials, hypothesis: Hypothesis, pool: Pool) -> Array:
    return trials.replayer.replay(hypothesis, pool=pool)


def _apart(one: Array, other: Array, is_labels: bool) -> NDArray[np.float64]:
    if is_labels:
        return np.asarray(np.any((one != other) & ~np.isnan(one) & ~np.isnan(other), axis=1), dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(np.nan_to_num(np.sqrt(np.mean((one - other) ** 2, axis=1)), nan=0.0, posinf=0.0))


def _recipes(inputs: int, generator: np.random.Generator) -> list[tuple[int, int, float]]:
    if inputs < 2:
        return [(0, 0, weight) for weight in _WEIGHTS]
    made = []
    for number in range(_MADE):
        first, second = generator.choice(inputs, 2, replace=False).tolist()
        made.append((int(first), int(second), _WEIGHTS[number % len(_WEIGHTS)]))
    return made


def _mixed(pool: Pool, recipes: Sequence[tuple[int, int, float]]) -> Pool | None:
    """weight × first + (1 − weight) × second, of every floating array; None: there is none."""
    if not any(array.dtype.kind == "f" for array, _ in pool.arrays()):
        return None
    ones, others = [one for one, _, _ in recipes], [other for _, other, _ in recipes]
    weights = np.asarray([weight for _, _, weight in recipes])
    arrays = []
    for array, axis in pool.arrays():
        first, second = np.take(array, ones, axis=axis), np.take(array, others, axis=axis)
        if array.dtype.kind == "f":
            shape = [1] * array.ndim
            shape[axis] = len(recipes)
            share = weights.reshape(shape)
            first = (share * first + (1 - share) * second).astype(array.dtype)
        arrays.append(first)
    return pool.with_arrays(arrays)
