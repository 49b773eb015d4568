"""Which trials fit: at the floor, and for the right reason."""

from __future__ import annotations

from bnaudit.diagnosis import MARGIN
from bnaudit.forwards import BudgetSpent
from bnaudit.records import replace
from bnaudit.triage.trials import Trial, Trials
from bnaudit.variation import Variation


def fits(trials: Trials, trial: Trial) -> bool:
    """Whether the observed scores' precision accounts for all that the trial leaves.

    Half precision has a coarse floor of its own, which would take in any small fault: it has to come five times nearer
    than the same without it.
    """
    if not trial.fits:
        return False
    if not trial.hypothesis.variation.dtype or trial.value <= trial.residual.base:
        return True
    try:
        return trial.value * MARGIN <= _without_dtype(trials, trial).value
    except BudgetSpent:
        return False


def _without_dtype(trials: Trials, trial: Trial) -> Trial:
    hypothesis = trial.hypothesis
    full = tuple(part for part in trial.parts if not part.variation.dtype)
    if full:
        return trials.trial(full[0], observations=trial.observations)
    variation = Variation(layers=hypothesis.variation.layers, drops=hypothesis.variation.drops)
    plain = replace(hypothesis, name="eval-as-saved", variation=variation)
    return trials.trial(plain, observations=trial.observations)
