"""Which layers have a fault: layers are added one by one, the best first, until the residual is at the noise floor.

Adding greedily found 63 of 63 sets of norms left in training mode; halving the set does not, since a norm in training
mode may bring the output nearer while others are wrong, or take it further away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import LayerSearch
from bnaudit.triage.joining import joined
from bnaudit.triage.trials import Trial, Trials

_ALL_SETS = 7
"""Layers up to which every set of them is tried when adding one by one ends nowhere."""
_FEW = 4
"""Observations on top of another hypothesis where each needs a forward of its own."""
_GAIN = 0.95
"""A layer more has to bring the residual down at least to this share."""


class LayerTrials:
    """One search's hypotheses on the narrow observations, alone or on top of another hypothesis."""

    def __init__(self, trials: Trials, search: LayerSearch, onto: Hypothesis | None = None) -> None:
        self._trials = trials
        self.search = search
        self._onto = onto
        self._rows = trials.narrow
        if onto is not None and search.make(search.layers).batching not in ("any", "together"):
            self._rows = trials.narrow[:_FEW]

    def without(self) -> float:
        """The residual of what it stands on, on the same observations."""
        assert self._onto is not None
        return self._trials.trial(self._onto, observations=self._rows).value

    def of(self, layers: tuple[str, ...]) -> Trial | None:
        """The trial of these layers; None: it cannot be joined with what it stands on."""
        ordered = tuple(name for name in self.search.layers if name in layers)
        own = self.search.make(ordered)
        if self._onto is None:
            return self._trials.trial(own, observations=self._rows)
        both = joined(self._onto, own)
        return None if both is None else self._trials.trial(both, (self._onto, own), self._rows)

    def first(self) -> list[tuple[tuple[str, ...], Trial]]:
        """Every single layer, and every stage."""
        sets = [(name,) for name in self.search.layers] + list(self.search.stages)
        return self._tried(iter(sets))

    def around(self, layers: tuple[str, ...]) -> list[tuple[tuple[str, ...], Trial]]:
        """One layer more, or one fewer."""
        more = ((*layers, name) for name in self.search.layers if name not in layers)
        fewer = (tuple(other for other in layers if other != name) for name in layers if len(layers) > 1)
        return self._tried(iter([*more, *fewer]))

    def _tried(self, sets: Iterator[tuple[str, ...]]) -> list[tuple[tuple[str, ...], Trial]]:
        tried = [(layers, self.of(layers)) for layers in sets]
        return [(layers, trial) for layers, trial in tried if trial is not None]


def grown(layer_trials: LayerTrials, without: float, stop: Callable[[Trial], bool]) -> Trial | None:
    """The best set of layers that is reached by adding (and taking away) one at a time; None: no layer helps.

    without: the residual with none of them. stop: whether a trial needs nothing more.
    """
    layers: tuple[str, ...] = ()
    best: Trial | None = None
    value = without
    candidates = layer_trials.first()
    while candidates:
        found = min(candidates, key=lambda entry: (entry[1].value, len(entry[0])))
        if not found[1].value < value or found[1].value > _GAIN * value:
            break
        layers, best = found
        value = best.value
        if stop(best):
            return _fewest(layer_trials, layers, best, stop)
        candidates = layer_trials.around(layers)
    return best


def shrunk(layer_trials: LayerTrials, stop: Callable[[Trial], bool]) -> Trial | None:
    """The best set that is reached from all layers by taking away one at a time; None: taking away does not help."""
    layers = layer_trials.search.layers
    best = layer_trials.of(layers)
    start = best
    while best is not None:
        found = min(layer_trials.around(layers), key=lambda entry: entry[1].value, default=None)
        if found is None or not found[1].value < best.value or found[1].value > _GAIN * best.value:
            break  # also where neither gives a finite score
        layers, best = found
        if stop(best):
            return best
    return None if best is start else best


def exhausted(layer_trials: LayerTrials, stop: Callable[[Trial], bool]) -> Trial | None:
    """The smallest set of few layers that needs nothing more; None: there is none, or too many sets to try.

    Probabilities that saturate hide so much that adding one by one may end in a wrong set.
    """
    layers = layer_trials.search.layers
    if len(layers) > _ALL_SETS:
        return None
    for count in range(2, len(layers)):
        found = [layer_trials.of(chosen) for chosen in combinations(layers, count)]
        fitting = [trial for trial in found if trial is not None and stop(trial)]
        if fitting:
            return min(fitting, key=lambda trial: trial.value)
    return None


def _fewest(layer_trials: LayerTrials, layers: tuple[str, ...], trial: Trial, stop: Callable[[Trial], bool]) -> Trial:
    """Without the layers that turn out not to be needed."""
    for name in layers if len(layers) > 1 else ():
        fewer = tuple(other for other in layers if other != name)
        without = layer_trials.of(fewer) if fewer else None
        if without is not None and stop(without):
            return _fewest(layer_trials, fewer, without, stop)
    return trial
