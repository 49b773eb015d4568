"""A norm layer's stored statistics against what it receives, with errors that count samples and not values.

Within one sample neighbouring values are alike: of N·H·W values only 3 to 60 % are independent on published nets, and
an error computed from all of them finds faults in healthy layers (z of 24 to 42). So every estimate is made of
per-sample moments, and every error of how these scatter from sample to sample.

Sources: Chan, Golub and LeVeque, 1979 (merging of moments); Efron and Tibshirani, "An Introduction to the Bootstrap",
1993, chapter 11 (delete-one jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

WORST_CHANNELS = 16
"""How many channels are listed; they never decide."""
_FLOOR_SHARE = 0.25
"""Share of the squared noise floor in the squared error of a root mean square, see `rms_error`."""
_CONSTANT = 1e-12
"""Share of the stored variance that rounding alone leaves of a constant."""


class Moments(NamedTuple):
    """Per-sample moments of what a norm received: each sample's own mean and biased variance, (samples, channels)."""

    mean: Array
    var: Array
    values: int
    """Values per sample and channel."""


class Merged(NamedTuple):
    """Mean and unbiased variance over all samples' values, (channels,)."""

    mean: Array
    var: Array


class Comparison(NamedTuple):
    """Two sets of statistics of the same channels, compared."""

    live: int
    shift: float
    """Root mean square over live channels of the difference of means, in standard deviations."""
    shift_error: float
    log_ratio: float
    """Median over live channels of |log(variance ratio)|."""
    log_ratio_error: float | None
    worst: tuple[int, ...]
    worst_shift: float


def merged(moments: Moments) -> Merged:
    """The exact statistics of all values together: all samples have the same number of them.

    mean = mean(mᵢ); biased variance = mean(vᵢ + (mᵢ − mean)²); unbiased: × n / (n − 1) with n = samples · values.
    """
    mean = moments.mean.mean(axis=0)
    biased = (moments.var + (moments.mean - mean) ** 2).mean(axis=0)
    count = moments.mean.shape[0] * moments.values
    return Merged(mean, biased * (count / (count - 1)) if count > 1 else biased)


def joined(calls: Sequence[Moments]) -> Moments:
    """Several populations of the same samples as one, each weighed by its number of values per sample."""
    if len(calls) == 1:
        return calls[0]
    total = sum(call.values for call in calls)
    mean: Array = sum(
        (call.mean * (call.values / total) for call in calls[1:]), calls[0].mean * (calls[0].values / total)
    )
    spread = [(call.var + (call.mean - mean) ** 2) * (call.values / total) for call in calls]
    return Moments(mean, sum(spread[1:], spread[0]), total)


def stacked(parts: Sequence[Moments]) -> Moments:
    """The samples of several forwards together."""
    import numpy as np

    means, variances = [part.mean for part in parts], [part.var for part in parts]
    return Moments(np.concatenate(means), np.concatenate(variances), parts[0].values)


def against_stored(moments: Moments, stored_mean: Array, stored_var: Array, eps: float) -> Comparison:
    """What the layer receives against what is stored for it, over live channels: stored variance above `eps`, and not
    constant in all samples (pruned), unless all are.

    Variances are compared as the layer uses them, epsilon added on both sides.
    """
    import numpy as np

    now = merged(moments)
    usable = np.isfinite(stored_mean) & np.isfinite(stored_var) & np.isfinite(now.mean) & np.isfinite(now.var)
    stored = usable & (stored_var > eps)
    moving = stored & (now.var > _CONSTANT * stored_var)
    live = np.flatnonzero(moving if moving.any() else stored)
    kept = Moments(moments.mean[:, live], moments.var[:, live], moments.values)
    mean, var = stored_mean[live], stored_var[live]
    return _compared(
        live,
        (kept.mean - mean) / np.sqrt(var),
        np.log((now.var[live] + eps) / (var + eps)),
        np.log((_var_without_each(kept) + eps) / (var + eps)),
    )


def between_populations(one: Moments, other: Moments, eps: float) -> Comparison:
    """Two populations that one layer normalizes, of the same samples, in standard deviations of both together."""
    import numpy as np

    variances = merged(one).var, merged(other).var
    pooled = (variances[0] + variances[1]) / 2
    live = np.flatnonzero(np.isfinite(pooled) & (pooled > eps))
    first, second = (Moments(each.mean[:, live], each.var[:, live], each.values) for each in (one, other))
    return _compared(
        live,
        (first.mean - second.mean) / np.sqrt(pooled[live]),
        np.log((variances[0][live] + eps) / (variances[1][live] + eps)),
        np.log((_var_without_each(first) + eps) / (_var_without_each(second) + eps)),
    )


def _compared(live: NDArray[np.intp], deviations: Array, log_ratios: Array, without_each: Array) -> Comparison:
    """`deviations` (samples, live) of single samples, `log_ratios` (live,), the same without each sample in turn."""
    import numpy as np

    if not live.size:
        return Comparison(0, 0.0, math.inf, 0.0, None, (), 0.0)
    shifts = deviations.mean(axis=0)
    order = np.argsort(-np.maximum(np.abs(shifts) / 0.5, np.abs(log_ratios) / math.log(2)), kind="stable")
    return Comparison(
        live=int(live.size),
        shift=float(np.sqrt((shifts**2).mean())),
        shift_error=rms_error(deviations),
        log_ratio=float(np.median(np.abs(log_ratios))),
        log_ratio_error=jackknife_error(np.median(np.abs(without_each), axis=1)),
        worst=tuple(int(channel) for channel in live[order[:WORST_CHANNELS]]),
        worst_shift=float(np.abs(shifts).max()),
    )


def rms_error(deviations: Array) -> float:
    """Standard error of the root mean square r over channels of the means d of `deviations` (samples, channels).

    Two parts, squared and added. (1) A shift that is there: to first order r moves by Σ d·δ / (C·r), so its error is
    the standard deviation over samples of each one's projection on d, ÷ √samples; channels that move together count
    once. (2) No shift at all: then r is noise alone, about f = √(mean over channels of sd² / samples), and part (1)
    is far too small when many channels scatter independently; a quarter of f² is added. With k independent channels
    pure noise exceeds four such errors when χ²(k) > 16 + 4·k: less than once in 100,000 for any k.
    Student's factor for few samples is in it. Infinite for fewer than two samples.
    """
    import numpy as np

    samples, channels = deviations.shape
    if samples < 2:
        return math.inf
    means = deviations.mean(axis=0)
    rms = float(np.sqrt((means**2).mean()))
    floor = float(deviations.var(axis=0, ddof=1).mean()) / samples
    along = deviations @ means / (channels * rms) if rms > 0 else np.zeros(samples)
    return student(samples) * math.sqrt(float(along.var(ddof=1)) / samples + _FLOOR_SHARE * floor)


def student(samples: int) -> float:
    """What an error estimated from few samples is multiplied with, so that four of it are as rare as four exact ones.

    Student's quantile ÷ the normal one at z = 4, t = √(ν·(exp((z·(8ν + 3)/(8ν + 1))² / ν) − 1)) with ν = samples − 1
    (D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", Annals of
    Mathematical Statistics 30, 1959, inverted; at most 2 % too large from 8 samples on): 2.15 for 8 samples, 1.37 for
    16, 1.16 for 32.
    """
    free = samples - 1
    return math.sqrt(free * math.expm1((4 * (8 * free + 3) / (8 * free + 1)) ** 2 / free)) / 4


def jackknife_error(without_each: Array) -> float | None:
    """Delete-one jackknife: √((n − 1)/n · Σ(θ₍ᵢ₎ − mean)²) of an estimate without each of n samples in turn.

    None for fewer than three.
    """
    import numpy as np

    samples = without_each.shape[0]
    if samples < 3:
        return None
    return float(np.sqrt((samples - 1) * without_each.var()))


def _var_without_each(moments: Moments) -> Array:
    """Unbiased variance (samples, channels) of all values but one sample's, for each sample.

    About the mean of the rest: Σ_{j≠i} (mⱼ − mean₍ᵢ₎)² = Σ dⱼ² − dᵢ² · n / (n − 1), with d = m − mean.
    """
    import numpy as np

    samples = moments.mean.shape[0]
    if samples < 3:
        return np.ones_like(moments.mean)
    apart = (moments.mean - moments.mean.mean(axis=0)) ** 2
    between = np.maximum(apart.sum(axis=0) - apart * (samples / (samples - 1)), 0.0)
    count = (samples - 1) * moments.values
    biased = (moments.var.sum(axis=0) - moments.var + between) / (samples - 1)
    unbiased: Array = np.maximum(biased, 0.0) * (count / (count - 1))
    return unbiased
