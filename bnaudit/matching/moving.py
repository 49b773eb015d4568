"""How far apart the two layers of each pair are, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.arithmetic import PYTORCH_EPS, fold
from bnaudit.comparison import Matching, Move, Pair
from bnaudit.description import NormLayer, StoredTensor
from bnaudit.matching.configuration import counters, differing_fields, modes
from bnaudit.matching.rounding import rounding, same_values
from bnaudit.matching.sides import Affine, Statistics, affine_of, epsilons, statistics_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_MOST_CHANNELS = 16
_NOTHING = 1e-12
"""Relative change of gain and shift below which a channel did not move."""


def moves(matching: Matching) -> tuple[Move, ...]:
    """One per pair, in the same order. Broken values (NaN, inf, negative variance) never raise nor warn."""
    if not matching.pairs:
        return ()
    import numpy as np

    with np.errstate(all="ignore"):
        return tuple(_move(pair) for pair in matching.pairs)


class _Equality(NamedTuple):
    equal: bool | None
    rounding: str = ""


class _Sizes(NamedTuple):
    """What a Move says in numbers."""

    mean_shift: float | None = None
    var_ratio: float | None = None
    affine_change: float | None = None
    gain_change: float | None = None
    shift_change: float | None = None
    channels: tuple[int, ...] = ()


_STILL = _Equality(True)
_NO_MOVE = _Sizes(0.0, 1.0, 0.0, 0.0, 0.0)
"""Of equal values and epsilons; most layers of most pairs of files, and not worth computing."""


def _move(pair: Pair) -> Move:
    subject, baseline = pair.subject, pair.baseline
    channels = subject.channels if subject.channels == baseline.channels else None
    ours, theirs = (_known(layer, channels) for layer in (subject, baseline))
    affine = _affine_equality(pair, ours.affine, theirs.affine)
    statistics = _statistics_equality(pair, ours.statistics, theirs.statistics)
    still = affine == statistics == _STILL and len(set(epsilons(subject, baseline))) == 1
    sizes = _NO_MOVE if still else _sizes(pair, ours, theirs)
    return Move(
        layer=subject.name,
        baseline_layer=baseline.name,
        affine_equal=affine.equal,
        statistics_equal=statistics.equal,
        rounding=statistics.rounding or affine.rounding,
        configuration=differing_fields(subject, baseline),
        modes=modes(subject, baseline),
        counters=counters(subject, baseline),
        **sizes._asdict(),
    )


class _Known(NamedTuple):
    affine: Affine | None
    statistics: Statistics | None


def _known(layer: NormLayer, channels: int | None) -> _Known:
    # A number of channels that is only declared may be anything.
    if channels is None or not any(t.values is not None and t.values.size == channels > 0 for t in layer.tensors):
        return _Known(None, None)
    return _Known(affine_of(layer, channels), statistics_of(layer, channels))


def _affine_equality(pair: Pair, ours: Affine | None, theirs: Affine | None) -> _Equality:
    """Unknown too where neither has any: then nothing stood still."""
    tensors = [(pair.subject.weight, pair.baseline.weight), (pair.subject.bias, pair.baseline.bias)]
    if ours is None or theirs is None or not any(one or other for one, other in tensors):
        return _Equality(None)
    return _equality(list(zip(ours, theirs, strict=True)), tensors)


def _statistics_equality(pair: Pair, ours: Statistics | None, theirs: Statistics | None) -> _Equality:
    if ours is None or theirs is None:
        return _Equality(None)
    subject, baseline = pair.subject, pair.baseline
    tensors = [(subject.running_mean, baseline.running_mean), (subject.running_var, baseline.running_var)]
    return _equality(list(zip(ours, theirs, strict=True)), tensors)


def _equality(
    values: list[tuple[Array, Array]], tensors: list[tuple[StoredTensor | None, StoredTensor | None]]
) -> _Equality:
    rounded = ""
    for (one, other), (stored, against) in zip(values, tensors, strict=True):
        if same_values(one, other):
            continue
        copied = rounding(stored, against) if stored is not None and against is not None else ""
        if not copied:
            return _Equality(False)
        rounded = copied
    return _Equality(True, rounded)


def _sizes(pair: Pair, ours: _Known, theirs: _Known) -> _Sizes:
    sizes = _Sizes()
    if ours.affine is not None and theirs.affine is not None:
        sizes = sizes._replace(affine_change=_affine_change(ours.affine, theirs.affine))
    if ours.statistics is None or theirs.statistics is None:
        return sizes
    eps, base_eps = epsilons(pair.subject, pair.baseline)
    sizes = sizes._replace(
        mean_shift=mean_shift(ours.statistics, theirs.statistics, base_eps),
        var_ratio=var_ratio(ours.statistics, theirs.statistics),
    )
    if ours.affine is None or theirs.affine is None:
        return sizes
    one = fold(*ours.statistics, *ours.affine, eps=eps)
    other = fold(*theirs.statistics, *theirs.affine, eps=base_eps)
    gains = _relative(one.gain - other.gain, other.gain, 0.0)
    shifts = _relative(one.shift - other.shift, other.shift, 1.0)
    return sizes._replace(gain_change=_largest(gains), shift_change=_largest(shifts), channels=_worst(gains, shifts))


def mean_shift(ours: Statistics, theirs: Statistics, eps: float) -> float | None:
    """Root mean square over channels of the change of the mean ÷ √(var + eps) of the baseline.

    That is what the layer divides by, so that a dead channel (variance 0) does not count for infinity. Channels that
    are not finite, or whose variance + eps is not positive, are left out; None: all are.
    """
    shifts = (ours.mean - theirs.mean) / (theirs.var + eps) ** 0.5
    return _rms(shifts[_finite(shifts)])


def var_ratio(ours: Statistics, theirs: Statistics) -> float | None:
    """Median over channels of the larger variance ÷ the smaller one.

    Of the live channels, those with a variance above 1e-5 on both sides; of all positive ones where none is.
    """
    import numpy as np

    large, small = np.maximum(ours.var, theirs.var), np.minimum(ours.var, theirs.var)
    usable = (small > 0.0) & _finite(large)
    live = usable & (small > PYTORCH_EPS)
    ratios = (large / small)[live if live.any() else usable]
    return float(np.median(ratios)) if ratios.size else None


def _affine_change(ours: Affine, theirs: Affine) -> float | None:
    import numpy as np

    change = float(np.linalg.norm(np.concatenate(ours) - np.concatenate(theirs)))
    size = float(np.linalg.norm(np.concatenate(theirs)))
    found = change / (size or 1.0)
    return found if np.isfinite(found) else None


def _relative(change: Array, reference: Array, added: float) -> Array:
    """|change| ÷ (added + the largest finite |reference|); 0 where the change is not finite."""
    import numpy as np

    finite = np.abs(reference[_finite(reference)])
    scale = added + (float(finite.max()) if finite.size else 0.0)
    return np.where(_finite(change), np.abs(change) / (scale or 1.0), np.nan)


def _largest(values: Array) -> float | None:
    known = values[_finite(values)]
    return float(known.max()) if known.size else None


def _worst(gains: Array, shifts: Array) -> tuple[int, ...]:
    import numpy as np

    sizes = np.nan_to_num(gains) + np.nan_to_num(shifts)
    order = np.argsort(-sizes, kind="stable")[:_MOST_CHANNELS]
    return tuple(int(channel) for channel in order if sizes[channel] > _NOTHING)


def _rms(values: Array) -> float | None:
    return float((values**2).mean()) ** 0.5 if values.size else None


def _finite(values: Array) -> NDArray[np.bool_]:
    import numpy as np

    return np.isfinite(values)
