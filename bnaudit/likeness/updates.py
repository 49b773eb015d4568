"""Running statistics after some more updates, with batches that are drawn from the given inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.likeness.gates import ruled_out, spoken_for
from bnaudit.likeness.shared import Direction, direction
from bnaudit.variation import Altered, Variation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEWEST = 64
"""Observed values; of fewer, every difference lies in the draws' directions."""


class Moments(Protocol):
    """See `bnaudit.triage_families.LayerMoments`."""

    @property
    def mean(self) -> NDArray[np.float64]: ...
    @property
    def var(self) -> NDArray[np.float64]: ...
    @property
    def stored_mean(self) -> NDArray[np.float64]: ...
    @property
    def stored_var(self) -> NDArray[np.float64]: ...
    @property
    def momentum(self) -> float: ...


class Updatable(Protocol):
    """What is asked of `bnaudit.triage_families.Replays`."""

    observed: NDArray[np.float64]
    as_saved: NDArray[np.float64]
    inputs: int
    is_labels: bool
    floor: float

    def scores(self, variation: Variation) -> NDArray[np.float64]: ...
    def batch_moments(self, rows: Sequence[int]) -> Mapping[str, Moments]: ...


def judged(
    replays: Updatable,
    log: LogEvidence | None,
    template: FamilyMatch,
    cause: str,
    updates: Sequence[tuple[int, int]],
    seed: int,
) -> FamilyMatch:
    """template: the family's names. updates: (number of updates, samples of each batch) of every draw."""
    import numpy as np

    excluded, said = ruled_out(cause, log), spoken_for(cause, log)
    if excluded or replays.is_labels or int(np.isfinite(replays.observed).sum()) < _FEWEST:
        why = excluded or said or "there are too few scores to tell one state from another"
        return _with(template, float("nan"), why, bool(said) and not excluded)
    drawn = [_drawn(replays, count, size, seed + i) for i, (count, size) in enumerate(updates)]
    found = direction(replays.observed, np.stack(drawn), replays.as_saved, replays.floor)
    return _with(template, found.inside, _signature(found, updates[found.nearest], said), found.fits or bool(said))


def _with(template: FamilyMatch, inside: float, signature: str, consistent: bool) -> FamilyMatch:
    from bnaudit.records import replace

    return replace(template, inside=inside, signature=signature, consistent=consistent)


def _signature(found: Direction, nearest: tuple[int, int], said: str) -> str:
    held = f"{100 * found.held:.1f} % of the difference lies in the directions in which updates move the scores"
    of_draws = f"of draws at least {100 * found.of_draws:.1f} %"
    size = f"nearest are {nearest[0]} updates with batches of {nearest[1]}"
    return "; ".join([*filter(None, [said]), f"{held}, {of_draws}", size])


def _drawn(replays: Updatable, count: int, size: int, seed: int) -> NDArray[np.float64]:
    """Scores in eval after `count` updates: r ← (1 − momentum) r + momentum · batch, for every layer."""
    import numpy as np

    generator = np.random.default_rng(seed)
    state: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    kinds = min(count, _MOST_BATCHES)
    batches = [
        replays.batch_moments(generator.choice(replays.inputs, size, replace=size > replays.inputs).tolist())
        for _ in range(kinds)
    ]
    for number in range(count):
        for name, moments in batches[number % kinds].items():
            mean, var = state.get(name, (moments.stored_mean, moments.stored_var))
            weight = moments.momentum
            state[name] = (mean + weight * (moments.mean - mean), var + weight * (moments.var - var))
    layers = {name: Altered(mean=mean, var=var) for name, (mean, var) in state.items()}
    return replays.scores(Variation(layers=MappingProxyType(layers)))


_MOST_BATCHES = 6
"""Different batches of one draw; more updates go round them."""
