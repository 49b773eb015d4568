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
    """Claims of further faults that beside the explanation would give the same scores on the given inputs.

    level: that of the scores' noise, where it was found from the residuals.
    """
    key = explanation.hypothesis.key
    alone = explanation.hypothesis.name == "eval-as-saved"
    found: dict[str, str] = {}
    for trial in among:
        more = trial.parts if alone else tuple(part for part in trial.parts if part.key != key)
        is_more = len(trial.parts) == 1 if alone else len(trial.parts) == len(more) + 1 == 2
        if trial is not explanation and is_more and _is_same(trials, trial, explanation, level or 0.0):
            found[more[0].key] = more[0].claim
    return tuple(found.values())


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
