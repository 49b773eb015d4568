"""Where two models part: how far apart what enters every norm is, and the first place where it no longer is equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from bnaudit.comparison import Parting
from bnaudit.parting.norm_maps import differs
from bnaudit.parting.norm_pairs import Applied, CallPair
from bnaudit.parting.rounding import Rounding
from bnaudit.parting.side import Seen
from bnaudit.shifts import BAND, epsilon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

_ROUNDINGS = 8.0
"""How many times the measured rounding of a layer's input counts as rounding."""


class Entered(NamedTuple):
    """How far apart two inputs of one norm are."""

    amount: float
    """Largest difference of a sample's mean or deviation, in standard deviations of the channel's input."""
    floor: float
    """What rounding can do to that channel, in the same unit."""

    @property
    def parted(self) -> bool:
        """Beyond rounding."""
        return not self.amount <= self.floor


def entered(one: Seen, other: Seen, step: float, rounded: tuple[Seen, Seen] | None = None) -> Entered | None:
    """Of the channel in which it is most beyond rounding; None where one of the two was not watched.

    step: what rounding can do, relative to the size of values. rounded: the call in one model and in that model in
    another precision, whose distance is rounding as measured.
    """
    moments = _common(one, other)
    if moments is None:
        return None
    mean, deviation, mean_other, deviation_other = moments
    size, unit = _scales(mean, deviation, step)
    apart = _distance(mean, deviation, mean_other, deviation_other)
    rounding = step * size
    measured = _common(*rounded) if rounded is not None else None
    if measured is not None and measured[0].shape[1:] == mean.shape[1:]:
        noise = _distance(*measured)
        if np.isfinite(noise).all():
            rounding = np.maximum(rounding, _ROUNDINGS * noise)
    with np.errstate(all="ignore"):
        excess = np.where(apart > 0, apart / rounding, 0.0)
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess))) if len(excess) else 0
    if not len(excess):
        return None
    return Entered(float(apart[worst] / unit[worst]), float(rounding[worst] / unit[worst]))


def _common(one: Seen, other: Seen) -> tuple[Array, Array, Array, Array] | None:
    if one.mean is None or one.var is None or other.mean is None or other.var is None:
        return None
    if one.mean.shape[1:] != other.mean.shape[1:]:
        return None
    count = min(len(one.mean), len(other.mean))
    first, second = (np.sqrt(np.maximum(seen.var[:count], 0.0)) for seen in (one, other))  # type: ignore[index]
    return one.mean[:count], first, other.mean[:count], second


def _scales(mean: Array, deviation: Array, step: float) -> tuple[Array, Array]:
    """Size of values, on which rounding depends, and deviation over all samples, each (channels,).

    A channel that is small by cancellation has the roundings of its neighbours: it counts as at least the median.
    """
    with np.errstate(all="ignore"):
        spread = np.sqrt((deviation**2).mean(axis=0) + mean.var(axis=0))
        size = np.sqrt((mean**2 + deviation**2).mean(axis=0))
    finite = size[np.isfinite(size)]
    size = np.maximum(np.where(np.isfinite(size), size, 0.0), float(np.median(finite)) if finite.size else 0.0)
    size = np.maximum(size, np.finfo(np.float64).tiny / step)
    return size, np.maximum(np.where(np.isfinite(spread), spread, 0.0), step * size)


def _distance(mean: Array, deviation: Array, mean_other: Array, deviation_other: Array) -> Array:
    """(channels,): over samples the largest difference; infinite where one is finite and the other is not."""
    return np.maximum(_largest(mean, mean_other), _largest(deviation, deviation_other))


def _largest(one: Array, other: Array) -> Array:
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    found: Array = np.where(np.isnan(apart), np.inf, apart).max(axis=0, initial=0.0)
    return found


def partings(pairs: tuple[CallPair, ...], dtype: str, rounding: Rounding | None) -> tuple[Parting, ...]:
    """One for every pair of norm calls that were watched, in order of execution.

    dtype: the coarser one of both models. rounding: None: it was not measured.
    """
    step = (BAND if rounding is None else _FEWEST) * epsilon(dtype)
    found = []
    for pair in pairs:
        rounded = rounding.of(pair) if rounding is not None else None
        there = entered(pair.baseline.seen, pair.subject.seen, step, rounded)
        if there is None:
            continue
        reason = "" if there.parted else differs(pair, max(step, there.floor), 2 * epsilon(dtype))
        found.append(
            Parting(
                layer=pair.subject.name,
                baseline_layer=pair.baseline.name,
                entered=there.amount,
                floor=there.floor,
                originates=bool(reason),
                reason=reason,
            )
        )
    return tuple(found)


_FEWEST = 16.0
"""Epsilons that are rounding in any case, where rounding was measured."""


def parts_at(found: tuple[Parting, ...], pairs: tuple[CallPair, ...], dtype: str) -> str:
    """The first place where they part, in words that follow "at"; the outputs are known to differ."""
    before: Parting | None = None
    for parting in found:
        if parting.originates:
            return f"{_name(parting)} ({parting.reason})"
        if parting.entered > parting.floor:
            return _between(before, parting, pairs, dtype)
        before = parting
    if not found:
        return _unwatched(pairs, dtype)
    return _own(pairs, before, None, dtype) or f"a place after {_name(found[-1])}, the last norm layer"


def _between(before: Parting | None, after: Parting, pairs: tuple[CallPair, ...], dtype: str) -> str:
    own = _own(pairs, before, after, dtype)
    if own:
        return own
    if before is None:
        return f"a place before {_name(after)}, the first norm layer"
    return f"a place between {_name(before)} and {_name(after)} that is no norm layer"


def _own(pairs: tuple[CallPair, ...], before: Parting | None, after: Parting | None, dtype: str) -> str:
    """A norm between the two that cannot be watched and that computes otherwise; "" when there is none."""
    names = [pair.subject.name for pair in pairs]
    begin = names.index(before.layer) + 1 if before is not None else 0
    end = names.index(after.layer) if after is not None and after.layer in names[begin:] else len(names)
    return _unwatched(pairs[begin:end], dtype)


def _unwatched(pairs: tuple[CallPair, ...], dtype: str) -> str:
    for pair in pairs:
        if pair.baseline.seen.mean is None or pair.subject.seen.mean is None:
            reason = differs(pair, BAND * epsilon(dtype), 2 * epsilon(dtype))
            if reason:
                return f"{_label(pair.subject)} ({reason})"
    return ""


def _name(parting: Parting) -> str:
    return parting.layer or "the model's norm"


def _label(side: Applied) -> str:
    return side.name or "the model's norm"
