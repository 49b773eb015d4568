"""The one number of a hypothesis that makes its replay nearest to what was observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from bnaudit.triage.hypotheses import Solvable
from bnaudit.triage.trials import Trial, Trials

_GRID = 10
_STEPS = 6
_HALVES = 5
_STEP = 1e-3
"""Of the logarithm, for the derivative."""
_ROUND = 5e-3
"""A solution this near to a number of one digit, relatively, is tried as that number."""


def solved(trials: Trials, solvable: Solvable, without: float, fits: Callable[[Trial], bool]) -> Trial | None:
    """The best value, over the logarithm, by a grid and Gauss–Newton steps from its nearest point.

    None: no value brings the residual below `without`, that of the model as it is. Labels have no derivative: the grid
    decides for them.
    """
    low, high = math.log10(solvable.low), math.log10(solvable.high)
    grid = [_at(trials, solvable, place) for place in np.linspace(low, high, _GRID).tolist()]
    place, best = min(grid, key=lambda entry: entry[1].value)
    if best.value >= without:
        return None
    for _ in range(_STEPS):
        step = _gauss_newton(trials, solvable, place, best)
        if step is None or fits(best):
            break
        found = _nearer(
            trials, solvable, best.value, [min(max(place + step / 2**k, low), high) for k in range(_HALVES)]
        )
        if found is None:
            break
        place, best = found
    plain = float(f"{10**place:.0e}")
    if abs(plain / 10**place - 1) < _ROUND:
        _, trial = _at(trials, solvable, math.log10(plain), plain)
        best = trial if trial.value <= 1.01 * best.value or fits(trial) else best
    return best


def _nearer(trials: Trials, solvable: Solvable, than: float, places: Sequence[float]) -> tuple[float, Trial] | None:
    """The first of these places with a smaller residual: a whole step may go too far."""
    for place in places:
        found = _at(trials, solvable, place)
        if found[1].value < than:
            return found
    return None


def _at(trials: Trials, solvable: Solvable, place: float, value: float | None = None) -> tuple[float, Trial]:
    return place, trials.trial(solvable.make(10**place if value is None else value), observations=trials.narrow)


def _gauss_newton(trials: Trials, solvable: Solvable, place: float, here: Trial) -> float | None:
    """The step of the logarithm that a linear model of the replay asks for."""
    _, near = _at(trials, solvable, place + _STEP)
    if here.scores is None or near.scores is None or trials.precision.is_labels:
        return None
    slope = (near.scores - here.scores) / _STEP
    left = trials.seen[list(here.observations)] - here.scores
    known = np.isfinite(slope) & np.isfinite(left)
    power = float(np.sum(slope[known] ** 2))
    return float(np.sum(slope[known] * left[known])) / power if power > 0 else None
