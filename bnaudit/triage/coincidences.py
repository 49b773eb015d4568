"""Hypotheses that give the same on the given inputs, whatever is observed: found by replay alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bnaudit.triage.trials import Trial, Trials


def coinciding(trials: Trials, among: Sequence[Trial]) -> tuple[tuple[Trial, ...], ...]:
    """Sets of trials of the same observations within one floor of the first of each set, the simplest one first."""
    groups: list[list[Trial]] = []
    for trial in among:
        if trial.scores is None or not np.isfinite(trial.scores).any():
            continue
        home = next((group for group in groups if _is_same(trials, trial, group[0])), None)
        if home is None:
            groups.append([trial])
        else:
            home.append(trial)
    return tuple(tuple(group) for group in groups if len(group) > 1)


def partners(
    trials: Trials, among: Sequence[Trial], of: Sequence[Trial], level: float | None
) -> Mapping[str, tuple[str, ...]]:
    """Key of each trial of `of` → keys of those that coincide with it on the observations that both have.

    level: that of the scores' noise, where it was found from the residuals.
    """
    return {
        trial.hypothesis.key: tuple(
            other.hypothesis.key
            for other in among
            if other is not trial and _is_same(trials, trial, other, level or 0.0)
        )
        for trial in of
    }


def unseen(trials: Trials, among: Sequence[Trial], explanation: Trial, level: float | None) -> tuple[str, ...]:
    """Claims of what would give the same scores on the given inputs, beside the explanation or in its place.

    level: that of the scores' noise, where it was found from the residuals.
    """
    own = {part.key for part in explanation.parts}
    as_saved = explanation.hypothesis.name == "eval-as-saved"
    found: list[str] = []
    for trial in among:
        if trial is explanation or len(trial.parts) > (1 if as_saved else 2):
            continue
        if _is_same(trials, trial, explanation, level or 0.0):
            beside = [part for part in trial.parts if part.key not in own]
            found.append(beside[0].claim if len(beside) == 1 else trial.hypothesis.claim)
    return tuple(dict.fromkeys(found))


def _is_same(trials: Trials, one: Trial, other: Trial, level: float = 0.0) -> bool:
    if one.scores is None or other.scores is None:
        return False
    common = sorted(set(one.observations) & set(other.observations))
    if not common:
        return False
    first, second = (
        t.scores[[t.observations.index(row) for row in common]] for t in (one, other) if t.scores is not None
    )
    floor = max(trials.precision.floor(first), trials.precision.floor(second), level)
    return trials.precision.apart(first, second) <= floor
