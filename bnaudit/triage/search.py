"""Singles first, then layers, then numbers, then pairs, for as long as nothing fits and there is time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from bnaudit.diagnosis import Hypothesis
from bnaudit.forwards import BudgetSpent
from bnaudit.triage.hypotheses import Generator, LayerSearch, Untried
from bnaudit.triage.joining import joined, joined_pairs
from bnaudit.triage.layer_search import LayerTrials, exhausted, grown, shrunk
from bnaudit.triage.situation import Situation
from bnaudit.triage.solving import solved
from bnaudit.triage.standing import Standing
from bnaudit.triage.trials import Trial, Trials, nearest_of_each_kind

_QUICK = 20.0
"""Seconds that single layers may take although a simpler hypothesis fits already."""
_QUICK_OTHERS = 3.0
"""Seconds that whole-model hypotheses may take together with the one that fits."""
_BEST = 10
"""Trials of which all pairs are made."""
_BASES = 16
"""Hypotheses on top of which layers are searched."""
_MOST_PAIRS = 400
_DECISIVE = 4.0
"""Times that layers on top of another fault have to bring it nearer before every way of searching them is gone."""
_PROMISING = 1.5
"""Times that all layers have to bring it nearer before some are taken away."""
_LOWERS = 0.98
"""A hypothesis lowers the residual if it brings it to this share of eval's."""


class Searched(NamedTuple):
    """What a search has left besides its trials."""

    untried: tuple[tuple[str, str], ...]
    singles_done: bool
    """Every whole-model hypothesis was tried."""
    interrupted: bool = False


class Search:
    """One search; the trials hold what it finds."""

    def __init__(self, trials: Trials, situation: Situation, generators: Sequence[Generator]) -> None:
        self.trials = trials
        self.situation = situation
        self.generators = generators
        self.untried: list[tuple[str, str]] = []
        self.standing = Standing(trials)
        self._is_slow = False
        """Single layers take more time than a rival's worth."""

    def run(self) -> Searched:
        """Try what there is time for."""
        phases = (
            (self._singles, "the other hypotheses"),
            (self._layers, "faults of single layers"),
            (self._with_others, "a second fault beside the one that fits"),
            (self._sets, "faults of several layers"),
            (self._numbers, "an epsilon that is none of the usual ones"),
            (self._pairs, "pairs of hypotheses"),
            (self._layers_on_top, "faults of single layers together with another fault"),
            (self._sets_on_top, "faults of several layers together with another fault"),
            (self._neighbours, "one layer more or fewer than in what fits"),
        )
        done, interrupted = 0, False
        try:
            for phase, _ in phases:
                phase()
                done += 1
        except BudgetSpent:
            self.untried += [(claim, "more time: --budget") for _, claim in phases[done:]]
        except KeyboardInterrupt:
            interrupted = True
            self.untried += [(claim, "an uninterrupted run") for _, claim in phases[done:]]
        return Searched(tuple(self.untried), done > 0, interrupted)

    def _singles(self) -> None:
        for generator in self._ordered():
            for proposed in generator.singles(self.situation):
                if isinstance(proposed, Untried):
                    self.untried.append((proposed.claim, proposed.needs))
                else:
                    self.standing.singles.append(self.trials.trial(proposed))
        self.trials.focus(self.standing.singles)

    def _layers(self) -> None:
        """One layer each: also as rivals of a simpler hypothesis that fits, when that is quick."""
        if self.standing.nothing_to_explain():
            return
        hypotheses = [each for generator in self.generators for each in generator.of_layers(self.situation)]
        searches = self._searches()
        count = len(hypotheses) + sum(len(search.layers) + len(search.stages) for search in searches)
        each = self.trials.replayer.seconds / max(len(self.standing.singles), 1)
        self._is_slow = count * each > _QUICK
        if self.standing.found() and self._is_slow:
            self.untried.append((f"{count} faults of single layers", "no simpler explanation: one fits already"))
            return
        for hypothesis in hypotheses:
            self.standing.confirmed(self.trials.trial(hypothesis, observations=self.trials.narrow))
        for search in searches:
            for _, trial in LayerTrials(self.trials, search).first():
                self.standing.confirmed(trial)

    def _with_others(self) -> None:
        """What fits, joined with every other whole-model hypothesis: rivals, and faults that would not show beside it.

        Only where that is quick, and single layers were, too.
        """
        if self.standing.nothing_to_explain() or not self.standing.found():
            return
        fitting = [trial for trial in self.trials.best() if len(trial.parts) == 1 and self.standing.stops(trial)]
        simplest = min(fitting, key=lambda trial: (len(trial.hypothesis.layers), trial.value), default=None)
        others = [trial.hypothesis for trial in self.standing.singles[1:] if trial.scores is not None]
        each = self.trials.replayer.seconds / max(len(self.standing.singles), 1)
        if simplest is None:
            return
        if self._is_slow or len(others) * each > _QUICK_OTHERS:
            needs = "no simpler explanation: one fits already"
            self.untried.append((f"{len(others)} other hypotheses together with the one that fits", needs))
            return
        for other in others:
            both = joined(simplest.hypothesis, other, hidden=True)
            if both is not None:
                self.standing.confirmed(self.standing.narrow(both, (simplest.hypothesis, other)))

    def _sets(self) -> None:
        if self.standing.is_settled():
            return
        without = self.standing.without()
        ranked = sorted(self._searches(), key=lambda search: self._nearest(search, None))
        for search in ranked:
            if self._nearest(search, None) < _LOWERS * without:
                self._searched(LayerTrials(self.trials, search), without)
            if self.standing.is_settled():
                return

    def _searched(self, layer_trials: LayerTrials, without: float) -> None:
        for way in (
            partial(grown, layer_trials, without),
            partial(shrunk, layer_trials),
            partial(exhausted, layer_trials),
        ):
            end = way(self.standing.stops)
            if end is not None:
                self.standing.confirmed(end)
                if self.standing.stops(end):
                    return

    def _numbers(self) -> None:
        if self.standing.is_settled():
            return
        for generator in self.generators:
            for solvable in generator.solvable(self.situation):
                best = solved(self.trials, solvable, self.standing.without(), self.standing.stops)
                if best is not None:
                    self.standing.confirmed(best)

    def _pairs(self) -> None:
        if self.standing.is_settled():
            return
        without = self.standing.without()
        lower = nearest_of_each_kind(
            [t for t in self.trials.best() if len(t.parts) == 1 and t.value < _LOWERS * without]
        )
        first = joined_pairs([trial.hypothesis for trial in lower[:_BEST]])
        whole = sorted((t for t in self.standing.singles if t.scores is not None), key=lambda trial: trial.value)
        for one, other, both in first:
            self.standing.confirmed(self.standing.narrow(both, (one, other)))
        if self.standing.is_settled():
            return
        second = [*lower[:_BEST], *whole]
        for one, other, both in list(joined_pairs([trial.hypothesis for trial in second]))[:_MOST_PAIRS]:
            self.standing.confirmed(self.standing.narrow(both, (one, other)))
            if self.standing.is_settled():
                return

    def _layers_on_top(self) -> None:
        if self.standing.is_settled():
            return
        hypotheses = [each for generator in self.generators for each in generator.of_layers(self.situation)]
        for base, each in product(self._bases(), hypotheses):
            both = joined(base.hypothesis, each)
            if both is not None:
                self.standing.confirmed(self.standing.narrow(both, (base.hypothesis, each)))

    def _bases(self) -> list[Trial]:
        """The nearest whole-model hypotheses besides eval: of another fault on top they need not be nearer than it.

        Half precision is none of them: beside another fault it is so small that pairs find it.
        """
        others = [t for t in self.standing.singles[1:] if t.scores is not None and not t.hypothesis.variation.dtype]
        return sorted(others, key=lambda trial: trial.value)[:_BASES]

    def _sets_on_top(self) -> None:
        if self.standing.is_settled():
            return
        for base in self._bases():
            for search in self._searches():
                self._searched_on_top(LayerTrials(self.trials, search, base.hypothesis))
                if self.standing.is_settled():
                    return

    def _searched_on_top(self, layer_trials: LayerTrials) -> None:
        """As far as it leads: there are so many of these searches that most have to end soon."""
        without = layer_trials.without()
        every = layer_trials.of(layer_trials.search.layers)
        ways = [partial(grown, layer_trials, without)]
        if every is not None and every.value * _PROMISING < without:
            ways.append(partial(shrunk, layer_trials))
        for way in ways:
            end = way(self.standing.stops)
            if end is not None:
                self.standing.confirmed(end)
            if end is not None and (self.standing.stops(end) or end.value * _DECISIVE < without):
                if not self.standing.stops(end):
                    self._searched(layer_trials, without)
                return

    def _neighbours(self) -> None:
        """What fits with one layer more, and with one fewer: some may not show."""
        if self._is_slow or self.standing.nothing_to_explain() or not self.standing.found():
            return
        fitting = [trial for trial in self.trials.best() if self.standing.stops(trial)]
        best = min(
            fitting, key=lambda trial: (len(trial.parts), len(trial.hypothesis.layers), trial.value), default=None
        )
        for part in best.parts if best is not None else ():
            onto = next((other for other in best.parts if other is not part), None) if best is not None else None
            for search in self._searches():
                layers = part.layers or search.layers
                if set(layers) <= set(search.layers) and search.make(layers).key == part.key:
                    for _, trial in LayerTrials(self.trials, search, onto).around(layers):
                        self.standing.confirmed(trial)

    def _ordered(self) -> list[Generator]:
        """Eval first: the others are compared with it."""
        return sorted(self.generators, key=lambda generator: generator.name != "eval-as-saved")

    def _searches(self) -> list[LayerSearch]:
        return [search for generator in self.generators for search in generator.searches(self.situation)]

    def _nearest(self, search: LayerSearch, onto: Hypothesis | None) -> float:
        return min((trial.value for _, trial in LayerTrials(self.trials, search, onto).first()), default=float("inf"))
