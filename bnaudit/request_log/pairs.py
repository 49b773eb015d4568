"""Pairs of observations of one input: what they have in common besides, and whether their scores differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.request_log.repeats import Repeats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_OF_ONE = 60
"""Observations of one input that are paired; of more, evenly chosen ones."""


class Pairs(NamedTuple):
    """Arrays over all pairs (one, other) of observations of the same input."""

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    largest: NDArray[np.float64]
    """Largest difference over the columns that both have, in units of the scores' scale."""
    typical: NDArray[np.float64]
    """Root mean square of the differences."""


class Proofs(NamedTuple):
    """Pairs that by themselves rule a cause out or in: how many there are, and how many differ."""

    same_request: tuple[int, int]
    same_companions: tuple[int, int]
    """In requests of exactly the same inputs, requests of one included."""
    alone: tuple[int, int]
    """Each the only sample of its forward."""
    other_companions: tuple[int, int]


def paired(repeats: Repeats) -> Pairs:
    """All pairs."""
    import numpy as np

    one, other = [], []
    for key in range(len(repeats.names)):
        members = np.flatnonzero(repeats.owner == key)
        if len(members) > _MOST_OF_ONE:
            members = members[np.linspace(0, len(members) - 1, _MOST_OF_ONE).astype(np.int64)]
        first, second = np.triu_indices(len(members), 1)
        one.append(members[first])
        other.append(members[second])
    left = np.concatenate(one) if one else np.empty(0, np.int64)
    right = np.concatenate(other) if other else np.empty(0, np.int64)
    gaps = np.abs(repeats.values[left] - repeats.values[right])
    both = np.isfinite(gaps)
    gaps = np.where(both, gaps, 0.0)
    return Pairs(left, right, gaps.max(axis=1, initial=0.0), np.sqrt((gaps**2).sum(1) / np.maximum(both.sum(1), 1)))


def proofs(repeats: Repeats, pairs: Pairs) -> Proofs:
    """What pairs in telling circumstances show."""
    import numpy as np

    differs = pairs.largest > repeats.limit
    never = np.zeros(len(differs), bool)
    same = never
    equal = never
    if repeats.requests is not None and repeats.companions is not None:
        same = repeats.requests[pairs.one] == repeats.requests[pairs.other]
        number: dict[tuple[int, ...], int] = {}
        groups = np.array([number.setdefault(group, len(number)) for group in repeats.companions], np.int64)
        whole = _whole(repeats)
        equal = ~same & (groups[pairs.one] == groups[pairs.other]) & whole[pairs.one] & whole[pairs.other]
    alone = never
    if repeats.sizes is not None:
        alone = ~same & (repeats.sizes[pairs.one] == 1) & (repeats.sizes[pairs.other] == 1)
        equal = equal | alone
    others = ~same & ~equal
    counted = [(int(which.sum()), int((which & differs).sum())) for which in (same, equal, alone, others)]
    return Proofs(*counted)


def _whole(repeats: Repeats) -> NDArray[np.bool_]:
    """Observations whose request is logged with as many inputs as its forward had samples."""
    import numpy as np

    assert repeats.companions is not None
    members = np.array([len(group) for group in repeats.companions])
    if repeats.sizes is None:
        return np.ones(len(members), bool)
    return np.asarray((repeats.sizes == 0) | (repeats.sizes == members))
