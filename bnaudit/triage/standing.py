"""How a search stands: what the trials so far say about whether to go on."""

from __future__ import annotations

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.fitting import fits
from bnaudit.triage.levels import level_of
from bnaudit.triage.trials import Trial, Trials


class Standing:
    """Whether something fits yet, and how near eval as saved is."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.singles: list[Trial] = []
        """Whole-model hypotheses, eval as saved first."""

    def narrow(self, hypothesis: Hypothesis, parts: tuple[Hypothesis, ...]) -> Trial:
        """On the most informative observations only."""
        return self.trials.trial(hypothesis, parts, self.trials.narrow)

    def confirmed(self, trial: Trial) -> Trial:
        """On the wide observations too, where it may be an explanation or a rival."""
        if self.stops(trial) or trial.value * 10 < self.without():
            return self.trials.trial(trial.hypothesis, trial.parts)
        return trial

    def stops(self, trial: Trial) -> bool:
        """Whether it fits, or leaves noise only although no precision as coarse was stated."""
        return fits(self.trials, trial) or level_of(self.trials, trial) is not None

    def without(self) -> float:
        """Eval's residual on the narrow observations."""
        return self.narrow(self.singles[0].hypothesis, ()).value

    def nothing_to_explain(self) -> bool:
        """Whether eval as saved fits."""
        return fits(self.trials, self.singles[0])

    def found(self) -> bool:
        """Whether a hypothesis stops the search on the wide observations."""
        return any(self.stops(trial) for trial in self.trials.best() if trial.observations == self.trials.wide)

    def is_settled(self) -> bool:
        """Whether something fits."""
        return self.nothing_to_explain() or self.found()
