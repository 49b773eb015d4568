"""Hypotheses that were replayed, and how near each came."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnaudit.diagnosis import FLOOR_FACTOR, Hypothesis, Tried
from bnaudit.forwards import BudgetSpent
from bnaudit.records import Record
from bnaudit.session import NotPossibleError, RunError
from bnaudit.triage.replaying import Replayer
from bnaudit.triage.residuals import Precision, Residual
from bnaudit.triage.scoring import Array

_FAILED = Residual(np.inf, 0.0, 0.0, 1.0, None, 0)
SOLVED = "solved-epsilon"
"""Name of a hypothesis with a number that was solved for; others of the name are steps on the way."""
WIDE, NARROW = 32, 12
"""Observations that hypotheses are compared on at first, and in searches with many of them."""


class Trial(Record, eq=False):
    """One hypothesis, replayed for some of the observations."""

    hypothesis: Hypothesis
    parts: tuple[Hypothesis, ...]
    """Itself, or the two that it joins."""
    observations: tuple[int, ...]
    scores: Array | None
    """None: it could not be replayed."""
    residual: Residual
    why: str = ""

    @property
    def value(self) -> float:
        """The residual itself."""
        return self.residual.value

    @property
    def fits(self) -> bool:
        """Whether the precision of the observed scores can account for all that it leaves."""
        return self.value <= FLOOR_FACTOR * self.residual.floor and self.residual.misses == 0


class Trials:
    """All trials of one search, each hypothesis replayed once on the same observations."""

    def __init__(self, replayer: Replayer, precision: Precision) -> None:
        self.replayer = replayer
        self.precision = precision
        self.seen = replayer.values
        count = len(self.seen)
        self.wide: tuple[int, ...] = _spread(count, WIDE)
        self.narrow: tuple[int, ...] = self.wide[:NARROW]
        self._made: dict[tuple[str, tuple[int, ...]], Trial] = {}

    def trial(
        self, hypothesis: Hypothesis, parts: tuple[Hypothesis, ...] = (), observations: Sequence[int] | None = None
    ) -> Trial:
        """The hypothesis on these observations; None: the wide ones. Raises BudgetSpent."""
        rows = self.wide if observations is None else tuple(observations)
        key = (hypothesis.key, rows)
        if key not in self._made:
            self._made[key] = self._replayed(hypothesis, parts or (hypothesis,), rows)
        return self._made[key]

    def best(self) -> list[Trial]:
        """One trial of every hypothesis, that on most observations; nearest first."""
        found: dict[str, Trial] = {}
        for (key, rows), trial in self._made.items():
            if key not in found or len(rows) > len(found[key].observations):
                found[key] = trial
        ordered = sorted(found.values(), key=lambda trial: (trial.value, len(trial.parts), trial.hypothesis.key))
        numbers = [trial for trial in ordered if trial.hypothesis.name.startswith(SOLVED)]
        dropped = {id(trial) for trial in numbers if trial is not _solution(numbers)}
        return [trial for trial in ordered if id(trial) not in dropped]

    def focus(self, trials: Sequence[Trial]) -> None:
        """Take for searches the observations on which these trials' replays differ most: nothing observed is used."""
        stacked = [t.scores for t in trials if t.scores is not None and t.observations == self.wide]
        stacked = [scores for scores in stacked if np.isfinite(scores).all()]
        if len(stacked) < 2:
            return
        scale = [max(float(np.sqrt(np.mean(scores**2))), 1e-30) for scores in stacked]
        unit = float(np.median(scale))
        differing = np.clip(np.stack(stacked) / unit, -3, 3).std(axis=0).mean(axis=1)
        order = np.argsort(-differing, kind="stable")[:NARROW]
        self.narrow = tuple(sorted(self.wide[position] for position in order))

    def _replayed(self, hypothesis: Hypothesis, parts: tuple[Hypothesis, ...], rows: tuple[int, ...]) -> Trial:
        try:
            scores = self.replayer.replay(hypothesis, rows)
        except BudgetSpent:
            raise
        except (RunError, NotPossibleError) as error:
            return Trial(
                hypothesis=hypothesis, parts=parts, observations=rows, scores=None, residual=_FAILED, why=str(error)
            )
        residual = self.precision.residual(scores, self.seen[list(rows)], hypothesis.variation.dtype)
        why = "" if np.isfinite(residual.value) else "it gives no finite scores"
        return Trial(hypothesis=hypothesis, parts=parts, observations=rows, scores=scores, residual=residual, why=why)

    def tried(self, trial: Trial, coinciding: tuple[str, ...] = ()) -> Tried:
        """The trial as it is reported."""
        residual = trial.residual
        return Tried(
            hypothesis=trial.hypothesis,
            residual=residual.value,
            floor=residual.floor,
            agreement=residual.agreement,
            coincides_with=coinciding,
            why=trial.why,
        )


def _solution(numbers: Sequence[Trial]) -> Trial:
    """Of all numbers that were tried the one that was also tried on most observations, or else the nearest."""
    most = max(len(trial.observations) for trial in numbers)
    return next(trial for trial in numbers if len(trial.observations) == most)


def _spread(count: int, most: int) -> tuple[int, ...]:
    """At most so many numbers below `count`, evenly spread."""
    if count <= most:
        return tuple(range(count))
    return tuple(sorted({round(place) for place in np.linspace(0, count - 1, most).tolist()}))


def nearest_of_each_kind(trials: Sequence[Trial], count: int = 2) -> list[Trial]:
    """The first `count` of each hypothesis, in their order."""
    kept: list[Trial] = []
    for trial in trials:
        kind = (trial.hypothesis.name, trial.hypothesis.batching)
        if sum((other.hypothesis.name, other.hypothesis.batching) == kind for other in kept) < count:
            kept.append(trial)
    return kept
