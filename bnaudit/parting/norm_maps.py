"""What a norm layer makes of its input, in two models: where the two maps differ beyond rounding, and by what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bnaudit.parting.norm_pairs import Applied, CallPair

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float64]


def differs(pair: CallPair, limit: float, grain: float) -> str:
    """What differs in the layer itself, in words; "" when its outputs for the same input agree within `limit`.

    limit: in standard deviations of the output. grain: relative rounding of a stored value, in the coarser precision.
    """
    one, other = pair.baseline, pair.subject
    if one.seen.call.uses_batch != other.seen.call.uses_batch and _keeps_statistics(pair):
        return f"the {'subject' if other.seen.call.uses_batch else 'baseline'} normalizes with the batch"
    if not _map_differs(pair, limit):
        return ""
    return ", ".join(_causes(one, other, max(_SMALL, grain))) or "its arithmetic"


def _keeps_statistics(pair: CallPair) -> bool:
    """Instance and layer norms take statistics from their input whatever the mode."""
    return any(side.seen.call.kind.is_batch for side in pair)


def _map_differs(pair: CallPair, limit: float) -> bool:
    """Whether gain · x + shift differs, at x around the mean that both were seen to receive (or normalize with).

    With statistics of the input, and so for both, only epsilon, gamma and beta can differ.
    """
    one, other = pair.baseline, pair.subject
    gain, shift, center, spread = _map(one)
    gain_other, shift_other, _, _ = _map(other)
    if gain.shape != gain_other.shape:
        return True
    size = np.maximum(np.abs(gain) * spread, 1e-30)
    with np.errstate(all="ignore"):
        around = np.abs((gain_other - gain) * center + shift_other - shift)
        slope = np.abs(gain_other - gain) * spread
        # beta alone decides in a channel whose gamma is 0, so the layer's own scale stands in for it
        size = np.maximum(size, 1e-3 * float(np.max(size, initial=0.0)))
        moved = np.maximum(around, slope) / np.maximum(size, np.abs(shift) + np.abs(gain * center))
    return bool((~(moved <= limit)).any())


def _map(side: Applied) -> tuple[Vector, Vector, Vector, Vector]:
    """Gain, shift, and centre and deviation of the input, each (channels,); y = gain · x + shift."""
    gamma, beta = side.affine
    eps = side.eps or 0.0
    stored = side.statistics
    mean, var = stored if stored is not None else (np.zeros(len(gamma)), np.ones(len(gamma)))
    if mean.shape != gamma.shape:
        mean, var = np.zeros(len(gamma)), np.ones(len(gamma))
    with np.errstate(all="ignore"):
        gain = gamma / np.sqrt(var + eps)
        center, spread = _input(side, mean, var)
        return gain, beta - mean * gain, center, spread


def _input(side: Applied, mean: Vector, var: Vector) -> tuple[Vector, Vector]:
    seen = side.seen
    if seen.mean is None or seen.var is None or side.statistics is None:
        return mean, np.sqrt(np.maximum(var, 0.0))
    total = seen.var.mean(axis=0) + seen.mean.var(axis=0)
    return seen.mean.mean(axis=0), np.sqrt(total)


def _causes(one: Applied, other: Applied, grain: float) -> list[str]:
    found = []
    if one.eps is not None and other.eps is not None and not np.isclose(one.eps, other.eps, rtol=1e-5, atol=0.0):
        found.append(f"epsilon {other.eps:.3g} instead of {one.eps:.3g}")
    mine, theirs = one.statistics, other.statistics
    if mine is not None and theirs is not None and mine[0].shape == theirs[0].shape:
        found += _statistics(mine, theirs, one.eps or 0.0, grain)
    for name, a, b in zip(("gamma", "beta"), one.affine, other.affine, strict=True):
        if a.shape != b.shape or _differ(a, b, grain):
            found.append(name)
    return found


def _statistics(mine: tuple[Vector, Vector], theirs: tuple[Vector, Vector], eps: float, grain: float) -> Iterator[str]:
    with np.errstate(all="ignore"):
        shift = np.abs(theirs[0] - mine[0]) / np.sqrt(np.maximum(mine[1] + eps, 1e-30))
        ratio = np.maximum(theirs[1] / mine[1], mine[1] / theirs[1])
    if _differ(mine[0], theirs[0], grain):
        yield f"its running mean{_up_to(shift, ' σ')}"
    if _differ(mine[1], theirs[1], grain):
        yield f"its running variance{_up_to(ratio, ' ×')}"


def _differ(one: Vector, other: Vector, grain: float) -> bool:
    """Beyond a rounding of the value, or of the layer's largest: zeros are rarely stored as exactly that."""
    with np.errstate(all="ignore"):
        apart = np.abs(other - one) > grain * np.maximum(np.abs(one), 1e-2 * np.max(np.abs(one), initial=0.0))
    return bool((apart | (np.isfinite(one) != np.isfinite(other))).any())


def _up_to(values: Vector, unit: str) -> str:
    """`, by up to 0.17 σ`; in words where values are no numbers."""
    finite = values[np.isfinite(values)]
    if finite.size < values.size:
        return ", which is not finite"
    return f", by up to {float(finite.max(initial=0.0)):.3g}{unit}"


_SMALL = 1e-4
"""Relative differences that are worth a word once the map as a whole is known to differ."""
