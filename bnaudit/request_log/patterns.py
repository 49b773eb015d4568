"""Patterns in the deviations of scores from their input's own mean, each with a permutation test.

A permutation test needs no distribution: under the hypothesis that a circumstance does not matter, exchanging it
between observations changes nothing, so the share of exchanges that give as large a statistic is the probability
(Fisher 1935; with 1 added above and below, Phipson and Smyth 2010).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.request_log.pairs import Pairs
from bnaudit.request_log.repeats import Repeats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PERMUTATIONS = 499
_MOST_PAIRS = 2000


class Pattern(NamedTuple):
    """A statistic, and how probable one as large is where the circumstance does not matter."""

    value: float
    probability: float
    rests_on: int
    """Pairs or observations that it rests on."""
    error: float
    """Standard deviation of the statistic where the circumstance does not matter."""


def deviations(repeats: Repeats) -> NDArray[np.float64]:
    """(observations, columns): from the mean of the input's observations, every input's of the same size.

    Probabilities are compared by their logarithms, so that sure predictions weigh as much. Divided by the input's own
    scatter, no few inputs decide; an input whose scores do not differ beyond their precision has deviations of 0.
    """
    import numpy as np

    values = _comparable(repeats)
    known = np.isfinite(values)
    values = np.where(known, values, 0.0)
    counts = _summed(repeats, known.astype(np.float64))
    means = (_summed(repeats, values) / np.maximum(counts, 1))[repeats.owner]
    times = counts[repeats.owner]
    apart = np.where(known & (times > 1), (values - means) * np.sqrt(times / np.maximum(times - 1, 1)), 0.0)
    scatter = np.sqrt(_summed(repeats, (apart**2).sum(1, keepdims=True)) / np.bincount(repeats.owner)[:, None])
    differing = np.zeros(len(repeats.names), bool)
    differing[repeats.owner[_beyond(repeats, values, means, known)]] = True
    scatter = np.where(differing[:, None] & (scatter > 0), scatter, np.inf)
    return np.asarray(apart / scatter[repeats.owner])


def _comparable(repeats: Repeats) -> NDArray[np.float64]:
    import numpy as np

    if not repeats.is_probabilities:
        return repeats.values
    least = max(repeats.limit, 1e-3)
    logarithms = np.log(np.maximum(repeats.values, 0.0) + least)
    return np.asarray(logarithms - np.nanmean(logarithms, axis=1, keepdims=True))


def _summed(repeats: Repeats, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(repeated inputs, columns)"""
    import numpy as np

    sums = np.zeros((len(repeats.names), values.shape[1]))
    np.add.at(sums, repeats.owner, values)
    return sums


def _beyond(
    repeats: Repeats, values: NDArray[np.float64], means: NDArray[np.float64], known: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Observations that are further from their input's mean than half of what precision can make differ."""
    import numpy as np

    limit = repeats.limit if not repeats.is_labels else 0.0
    return np.asarray((np.where(known, np.abs(values - means), 0.0) > limit / 2).any(axis=1))


def common_error(repeats: Repeats, deviation: NDArray[np.float64], seed: int = 0) -> Pattern | None:
    """Share of the deviations' variance that different inputs of one request have in common."""
    if repeats.requests is None:
        return None
    one, other = _request_pairs(repeats)
    power = float((deviation**2).sum(1).mean())
    if not len(one) or power == 0:
        return None

    def share(arranged: NDArray[np.int64]) -> float:
        moved = deviation[arranged]
        return float((moved[one] * moved[other]).sum(1).mean()) / power

    return _tested(share, lambda generator: _within(repeats.owner, generator), len(repeats.owner), len(one), seed)


def dependence_on_size(repeats: Repeats, deviation: NDArray[np.float64], seed: int = 0) -> Pattern | None:
    """How far the scatter falls as batches grow: minus the rank correlation of its square with the batch size."""
    import numpy as np

    if repeats.sizes is None:
        return None
    known = repeats.sizes > 1
    if len(np.unique(repeats.sizes[known])) < 2:
        return None
    squared = _ranked((deviation[known] ** 2).sum(1))
    sizes = _ranked(repeats.sizes[known].astype(np.float64))

    def fall(arranged: NDArray[np.int64]) -> float:
        return -_correlation(squared, sizes[arranged])

    return _tested(fall, lambda generator: generator.permutation(len(sizes)), len(sizes), len(sizes), seed)


def growth_with_time(repeats: Repeats, pairs: Pairs, seed: int = 0) -> Pattern | None:
    """Correlation of the difference of two observations of one input with the logarithm of the time between them."""
    import numpy as np

    if repeats.order is None or len(pairs.one) < 3:
        return None
    order = repeats.order
    every = np.linspace(0, len(pairs.one) - 1, min(len(pairs.one), _MOST_PAIRS)).astype(np.int64)
    one, other, typical = pairs.one[every], pairs.other[every], _ranked(pairs.typical[every])
    moments, place = np.unique(_moments(repeats, order), return_inverse=True)
    place = place.ravel()

    def growth(arranged: NDArray[np.int64]) -> float:
        when = arranged[place].astype(np.float64)
        return _correlation(typical, np.log1p(np.abs(when[one] - when[other])))

    return _tested(growth, lambda generator: generator.permutation(len(moments)), len(moments), len(one), seed)


def persistence(repeats: Repeats, deviation: NDArray[np.float64], seed: int = 0) -> Pattern | None:
    """Correlation of the mean deviations of consecutive requests: what lasts from one request to the next."""
    import numpy as np

    if repeats.order is None or repeats.requests is None:
        return None
    moments, place = np.unique(_moments(repeats, repeats.order), return_inverse=True)
    place = place.ravel()
    if len(moments) < 8:
        return None
    means = np.zeros((len(moments), deviation.shape[1]))
    np.add.at(means, place, deviation)
    means /= np.bincount(place, minlength=len(moments))[:, None]
    power = float((means**2).sum(1).mean())
    if power == 0:
        return None

    def lasting(arranged: NDArray[np.int64]) -> float:
        moved = means[arranged]
        return float((moved[:-1] * moved[1:]).sum(1).mean()) / power

    return _tested(lasting, lambda generator: generator.permutation(len(moments)), len(moments), len(moments), seed)


def _moments(repeats: Repeats, order: NDArray[np.float64]) -> NDArray[np.float64]:
    """(observations,): when its request came, the same for all of one request."""
    import numpy as np

    if repeats.requests is None:
        return order
    numbers, place = np.unique(repeats.requests, return_inverse=True)
    first = np.full(len(numbers), np.inf)
    np.minimum.at(first, place.ravel(), order)
    # Two requests of one moment stay two.
    return np.asarray(first[place.ravel()] + place.ravel() * 1e-9)


def _request_pairs(repeats: Repeats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of observations of different inputs in one request."""
    import numpy as np

    assert repeats.requests is not None
    order = np.argsort(repeats.requests, kind="stable")
    one, other = [], []
    starts = np.flatnonzero(np.diff(repeats.requests[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        some = members[:_LARGEST_REQUEST]
        first, second = np.triu_indices(len(some), 1)
        apart = repeats.owner[some[first]] != repeats.owner[some[second]]
        one.append(some[first][apart])
        other.append(some[second][apart])
    left, right = np.concatenate(one), np.concatenate(other)
    some = np.linspace(0, len(left) - 1, min(len(left), _MOST_PAIRS)).astype(np.int64)
    return left[some], right[some]


_LARGEST_REQUEST = 64


def _within(owner: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """A permutation of the observations that leaves every one with its input."""
    import numpy as np

    arranged = np.empty(len(owner), np.int64)
    arranged[np.argsort(owner, kind="stable")] = np.argsort(owner + generator.random(len(owner)))
    return arranged


def _tested(
    statistic: Callable[[NDArray[np.int64]], float],
    permuted: Callable[[np.random.Generator], NDArray[np.int64]],
    length: int,
    rests_on: int,
    seed: int,
) -> Pattern:
    import numpy as np

    generator = np.random.default_rng(seed)
    seen = statistic(np.arange(length))
    drawn = np.array([statistic(permuted(generator)) for _ in range(PERMUTATIONS)])
    at_least = int((drawn >= seen - 1e-12).sum())
    return Pattern(seen, (1 + at_least) / (1 + PERMUTATIONS), rests_on, float(drawn.std()))


def _ranked(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, the same for equal values."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(middle[inverse.ravel()], np.float64)


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    a, b = one - one.mean(), other - other.mean()
    length = float((a @ a) * (b @ b)) ** 0.5
    return float(a @ b) / length if length else 0.0
