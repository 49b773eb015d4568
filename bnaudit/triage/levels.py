"""The level at which residuals end although the precision of the scores was not stated."""

from __future__ import annotations

import numpy as np

from bnaudit.triage.noise import is_noise
from bnaudit.triage.trials import Trial, Trials

_WELL_BELOW = 1e-2
"""A common level of residuals is a precision only if it is below this share of the spread of the scores."""
_ARITHMETIC = 3e-5
"""Relative to the scores: kernels of another machine differ by this much, and not as noise does."""


def level_of(trials: Trials, trial: Trial, *, patterned: bool = False) -> float | None:
    """The trial's residual, when what it leaves is far below the scores' spread and of no pattern; None: it is not.

    patterned: what is as small as the difference of two machines' kernels may have a pattern.

    A fault that is on no list leaves a pattern: it grows with the scores, or with some of the rows or columns. Half
    precision makes noise of its own, which hides any pattern.
    """
    if trial.hypothesis.variation.dtype:
        return None
    if trials.precision.is_labels or trial.scores is None or not np.isfinite(trial.value):
        return None
    seen = trials.seen[list(trial.observations)]
    logged = np.isfinite(seen)
    spread = float(np.sqrt(np.nanmean((seen - np.nanmean(seen, axis=0)) ** 2)))
    if trial.value > _WELL_BELOW * spread:
        return None
    scale = float(np.sqrt(np.mean(seen[logged] ** 2)))
    if patterned and trial.value <= _ARITHMETIC * scale:
        return trial.value
    return trial.value if is_noise(seen - trial.scores, trial.scores) else None
