"""What the residuals prove."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bnaudit.diagnosis import FLOOR_FACTOR, MARGIN, Conclusion
from bnaudit.triage.fitting import fits
from bnaudit.triage.joining import contains
from bnaudit.triage.levels import level_of
from bnaudit.triage.trials import SOLVED, Trial, Trials

_CHANCE = 3.0
"""Standard deviations by which two estimates of one level may differ."""


class Verdict(NamedTuple):
    """The conclusion and the trials that it is about."""

    conclusion: Conclusion
    reason: str
    explanations: tuple[Trial, ...] = ()
    precision: float | None = None
    margin: float | None = None


def verdict(trials: Trials, singles_done: bool) -> Verdict:
    """The conclusion from all trials. singles_done: every whole-model hypothesis was tried."""
    every = [trial for trial in trials.best() if np.isfinite(trial.value)]
    if not every:
        return Verdict(Conclusion.NOT_EXPLAINED, "no hypothesis could be replayed")
    known = [trial for trial in every if len(trial.observations) >= len(trials.wide)]
    fitting = [trial for trial in known if fits(trials, trial)]
    precision = None
    if not fitting:
        precision = level_of(trials, known[0], patterned=True) if known else None
        if precision is None:
            return _unexplained(trials, every)
        fitting = [trial for trial in known if trial.value <= FLOOR_FACTOR * precision]
    return _explained(trials, every, fitting, precision, singles_done)


def _explained(
    trials: Trials, every: list[Trial], fitting: list[Trial], precision: float | None, singles_done: bool
) -> Verdict:
    simplest = min(fitting, key=_simplicity)
    base = max(simplest.value, simplest.residual.base, precision or 0.0)
    rivals = [trial for trial in every if not _is_no_rival(trials, trial, simplest, base)]
    near = [trial for trial in rivals if trial.value < MARGIN * base]
    as_saved = simplest.hypothesis.name == "eval-as-saved"
    if as_saved and precision is None:
        if trials.precision.is_labels:
            return Verdict(Conclusion.NOTHING_TO_EXPLAIN, _labels_of_eval(trials, simplest, len(near)), (simplest,))
        near = [trial for trial in near if trial.value * MARGIN <= simplest.value]
    margin = min((trial.value / base for trial in rivals if trial not in near), default=None) if base else None
    at = _at(trials, simplest, precision)
    if near:
        several = (simplest, *near)
        reason = f"{len(several)} hypotheses cannot be told apart by these scores: of the simplest {at}"
        return Verdict(Conclusion.SEVERAL, reason, several, precision, None)
    if not singles_done:
        reason = f"{simplest.hypothesis.claim}: {at}; but not all rivals were tried"
        return Verdict(Conclusion.NEAREST, reason, (simplest,), precision, margin)
    if trials.precision.is_labels and not as_saved and _is_manifold(simplest):
        reason = f"{simplest.hypothesis.claim}: {at}; but labels say too little to prove several faults at once"
        return Verdict(Conclusion.NEAREST, reason, (simplest,), precision, margin)
    reason = f"{at}, the nearest rival is {_times(margin)} further away" if margin else f"{at}, and there is no rival"
    if precision is not None:
        return Verdict(Conclusion.UP_TO_PRECISION, reason, (simplest,), precision, margin)
    conclusion = Conclusion.NOTHING_TO_EXPLAIN if as_saved else Conclusion.EXPLAINED
    return Verdict(conclusion, reason, (simplest,), None, margin)


def _unexplained(trials: Trials, every: list[Trial]) -> Verdict:
    """Nothing fits: one that comes far nearer than eval is named, and not called an explanation."""
    nearest = min((t for t in every if t.value <= FLOOR_FACTOR * every[0].value), key=_simplicity)
    as_saved = next((trial for trial in every if trial.hypothesis.name == "eval-as-saved"), None)
    words = f"{_number(nearest.value)} against a floor of {_number(nearest.residual.floor)}"
    why = (
        ""
        if nearest.residual.misses == 0 or not nearest.fits
        else (f", and {nearest.residual.misses:.1%} of the values are further away than rounding can put them")
    )
    if as_saved is not None and nearest.value * MARGIN <= as_saved.value:
        reason = f"the residual of the nearest hypothesis is {words}{why}"
        return Verdict(Conclusion.NEAREST, reason, (nearest,))
    return Verdict(Conclusion.NOT_EXPLAINED, f"the smallest residual is {words}{why}")


def _is_no_rival(trials: Trials, trial: Trial, simplest: Trial, base: float) -> bool:
    """It is the explanation, or says the same and more without coming nearer, or is the same number in other words."""
    if trial is simplest:
        return True
    if trial.value * MARGIN <= simplest.value and simplest.value > simplest.residual.base:
        return False
    if trials.precision.is_labels:
        return False
    if contains(trial.parts, simplest.parts) or _are_numbers(trial, simplest):
        return True
    if base > simplest.residual.base and trial.value < simplest.value * (
        1 - _CHANCE / np.sqrt(2 * trial.residual.values)
    ):
        return False
    same = _coincide(trials, trial, simplest, base)
    as_saved = simplest.hypothesis.name == "eval-as-saved"
    return same and (as_saved or _is_smaller_set(trial, simplest))


def _coincide(trials: Trials, one: Trial, other: Trial, base: float) -> bool:
    if one.scores is None or other.scores is None:
        return False
    common = sorted(set(one.observations) & set(other.observations))
    if not common:
        return False
    first = one.scores[[one.observations.index(row) for row in common]]
    second = other.scores[[other.observations.index(row) for row in common]]
    return trials.precision.apart(first, second) <= base


def _is_smaller_set(trial: Trial, simplest: Trial) -> bool:
    """The same of fewer layers, where all layers have it."""
    one, all_of_them = trial.hypothesis, simplest.hypothesis
    return one.name == all_of_them.name and one.batching == all_of_them.batching and not all_of_them.layers


def _are_numbers(one: Trial, other: Trial) -> bool:
    """One of them is a number that was solved for near the other."""
    names = {trial.hypothesis.name.partition(":")[0] for trial in (one, other)}
    return SOLVED in names and names <= {SOLVED, "epsilon"}


def _simplicity(trial: Trial) -> tuple[bool, int, int, float]:
    hypothesis = trial.hypothesis
    return hypothesis.name != "eval-as-saved", len(trial.parts), len(hypothesis.layers), trial.value


def _at(trials: Trials, trial: Trial, precision: float | None) -> str:
    if trials.precision.is_labels:
        return f"{1 - trial.value:.1%} of {trial.residual.values} labels are the same"
    if precision is not None:
        return f"the residual is {_number(trial.value)}, and what is left looks like noise of that level"
    return f"the residual of {_number(trial.value)} is at the floor of {_number(trial.residual.floor)}"


def _is_manifold(trial: Trial) -> bool:
    """Two faults, or one of several layers but not of all: there are too many of them to try each."""
    return len(trial.parts) > 1 or len(trial.hypothesis.layers) > 1


def _labels_of_eval(trials: Trials, trial: Trial, others: int) -> str:
    """Labels need no other cause; they hardly speak against one either."""
    found = _at(trials, trial, None)
    if not others:
        return found
    return (
        f"{found} as in eval, which {'one other hypothesis gives' if others == 1 else f'{others} other ones give'}, too"
    )


def _times(margin: float) -> str:
    return f"{margin:.3g} ×" if margin < 1e6 else "more than a million ×"


def _number(value: float) -> str:
    return f"{value:.2g}"
