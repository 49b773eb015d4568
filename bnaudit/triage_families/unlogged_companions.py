"""Norm layers in training mode, each input beside others that were not logged."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.likeness.form import comparable
from bnaudit.likeness.gates import ruled_out, spoken_for
from bnaudit.triage_families import Family, Replays
from bnaudit.variation import Altered, Variation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bnaudit.likeness.rowwise import Likeness

_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_FIRST, _MORE = 4, 20
"""Draws of every batch size, and of the two that come nearest."""
_FEWEST = 12
"""Observations; of fewer, anything may be a draw."""
_CLAIM = "norm layers ran in training mode, beside other inputs that were not logged"
_NEEDS = "which inputs were in one batch, a column `request`, or the companions themselves for --companions"


def judge(replays: Replays, log: LogEvidence | None) -> FamilyMatch | None:
    """Draw batches of several sizes from the given inputs."""
    if not replays.norms:
        return None
    excluded = ruled_out("companions", log)
    if excluded or replays.is_labels or len(replays.rows) < _FEWEST or replays.inputs < 3:
        said = spoken_for("companions", log)
        why = excluded or said or "there are too few scores to tell a draw from anything else"
        return _match(float("nan"), why, bool(said) and not excluded)
    size, found = _nearest(replays)
    if not found.fits:
        return _match(found.inside, f"nearest with batches of {size}, but {found.misfit}", False)
    seen = [f"the scores are one more draw of batches of about {size}: in distance, shape and direction alike"]
    return _match(found.inside, "; ".join([*filter(None, [spoken_for("companions", log)]), *seen]), True)


def _match(inside: float, signature: str, consistent: bool) -> FamilyMatch:
    return FamilyMatch(
        name="unlogged-companions",
        claim=_CLAIM,
        inside=inside,
        signature=signature,
        consistent=consistent,
        needs=_NEEDS,
    )


def _nearest(replays: Replays) -> tuple[int, Likeness]:
    """The batch size whose draws are most like the observed scores."""
    sizes = [size for size in _SIZES if size <= replays.inputs]
    few = {size: _drawn(replays, size, range(_FIRST)) for size in sizes}
    order = sorted(sizes, key=lambda size: abs(_like(replays, few[size]).distance))
    best: list[tuple[float, int, Likeness]] = []
    for size in order[:2]:
        found = _like(replays, [*few[size], *_drawn(replays, size, range(_FIRST, _MORE))])
        best.append((found.worst, size, found))
    _, size, found = min(best, key=lambda each: each[:2])
    return size, found


def _like(replays: Replays, draws: list[NDArray[np.float64]]) -> Likeness:
    import numpy as np

    from bnaudit.likeness.rowwise import likeness

    observed, drawn, saved = (
        comparable(each, replays.is_probabilities, replays.floor)
        for each in (replays.observed, np.stack(draws), replays.as_saved)
    )
    return likeness(observed, drawn, saved)


def _drawn(replays: Replays, size: int, seeds: range) -> list[NDArray[np.float64]]:
    variation = Variation(layers=MappingProxyType({name: Altered(training=True) for name in replays.norms}))
    return [replays.scores(variation, _batches(replays, size, seed)) for seed in seeds]


def _batches(replays: Replays, size: int, seed: int) -> list[list[int]]:
    """The observed inputs in batches at random; the last one is filled up with any others."""
    import numpy as np

    generator = np.random.default_rng((seed, size))
    inputs = generator.permutation(np.unique(replays.rows)).tolist()
    groups: dict[int, list[int]] = {}
    for start in range(0, len(inputs), size):
        batch = inputs[start : start + size]
        if len(batch) < size:
            others = [row for row in generator.permutation(replays.inputs).tolist() if row not in batch]
            batch = [*batch, *others[: size - len(batch)]]
        for row in inputs[start : start + size]:
            groups[row] = [row, *(other for other in batch if other != row)]
    return [groups[row] for row in replays.rows.tolist()]


FAMILY = Family("unlogged-companions", judge)
