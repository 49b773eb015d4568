"""Statistics that would not survive float16, or one live channel far above the others.

## What it finds

In a norm layer that keeps statistics, in this order:

- a running mean or variance beyond 65504, the largest float16;
- a folded gain gamma / √(variance + epsilon) or shift beta − mean · gain beyond 65504;
- a *live* channel (variance above epsilon) whose variance is over 10,000 × the median of the live ones;
- where epsilon is known and below 1e-6: a live variance below 6e-8, the smallest float16, which becomes 0.

A note; a **warning** when the layer itself is stored in float16.

## Why it matters

The file is right as long as it stays in float32. Converted to float16 (for a GPU engine, a phone, a consolidated
checkpoint), a value beyond 65504 becomes inf, and the channel becomes constant or NaN. A variance thousands of times
the usual one is also what a half-trained overflow in mixed precision leaves behind.

## Worked arithmetic

    variance 1.7e7 (published segmentation model)    float16: inf      gain 1 / √inf = 0: the channel is constant
    variance 2e-8, epsilon 1e-12, gamma 1            gain 7071         float16: variance 0, gain 1 / √1e-12 = 1,000,000
    variance 2e-8, epsilon 1e-5                      gain 316          float16: variance 0, gain 316: nothing happens

The third line is why dead channels are left alone: below epsilon, rounding the variance to 0 changes the gain by
little (2e-8 against 1e-5: 0.1 %).

## How to fix

Keep norm statistics in float32 when the rest is converted (`model.half()` followed by `norm.float()` for each norm;
`keep_io_types` and an op block list for ONNX). Fold the norms in float64 before converting. For one runaway channel,
look at the convolution before it: weights or inputs that exploded.

## Limits

- The largest ratio among 11 published healthy checkpoints is 67, so 10,000 is far outside; the ratio needs three live
  channels.
- An epsilon that the file does not state is taken as 1e-5; the last case is then never reported.
- Values that are already inf are told by BN106, negative variances by BN107.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.arithmetic import PYTORCH_EPS, fold
from bnaudit.description import NormLayer, Part
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_CHANNELS_SHOWN = 16
_FEWEST_LIVE = 3
"""Of two variances neither is the usual one."""


class _Channels(NamedTuple):
    """The channels whose numbers can be computed with, and where they stand."""

    places: NDArray[np.int64]
    mean: Array
    var: Array
    gamma: Array | None
    beta: Array | None


class _Excess(NamedTuple):
    message: str
    size: Array
    """Larger is worse; shown for the worst channel."""
    bad: NDArray[np.bool_]
    limit: float


@rule(
    id="BN109",
    severity=Severity.NOTE,
    limits={
        "largest_half": 65504.0,
        "smallest_half": 6e-8,
        "ratio": 1e4,
        "small_epsilon": 1e-6,
        "assumed_epsilon": PYTORCH_EPS,
    },
    yields_to=("BN106", "BN107"),
)
def overflowing_statistics(case: Case) -> Iterator[Hit]:
    """At most one hit per layer: the first of the four cases."""
    for part, layer in case.subject.layers:
        stated = layer.eps if layer.eps is not None and math.isfinite(layer.eps) else None
        epsilon = case.limits["assumed_epsilon"] if stated is None else stated
        if _is_plainly_inside(layer, epsilon, case.limits):
            continue
        channels = _usable(layer, epsilon)
        if channels is not None:
            cases = _cases(layer, channels, epsilon, case.limits)
            if worst := next((excess for excess in cases if excess.bad.any()), None):
                yield _hit(part, layer, channels, worst)


def _is_plainly_inside(layer: NormLayer, epsilon: float, limits: Mapping[str, float]) -> bool:
    """Whether the extremes over all channels rule out every case, at a fraction of the cost. NaN rules out none."""
    mean, var, gamma, beta = layer.mean, layer.var, layer.gamma, layer.beta
    if mean is None or var is None or not mean.size or not var.size or epsilon < limits["small_epsilon"]:
        return False
    lowest, highest = float(var.min()), float(var.max())
    if not (lowest >= 0.0 and highest <= limits["ratio"] * max(lowest, epsilon)):
        return False
    furthest = float(abs(mean).max())
    gain = (1.0 if gamma is None or not gamma.size else float(abs(gamma).max())) * (lowest + epsilon) ** -0.5
    shift = furthest * gain + (0.0 if beta is None or not beta.size else float(abs(beta).max()))
    return math.isfinite(shift) and max(highest, furthest, gain, shift) <= limits["largest_half"]


def _usable(layer: NormLayer, epsilon: float) -> _Channels | None:
    mean, var, gamma, beta = layer.mean, layer.var, layer.gamma, layer.beta
    if mean is None or var is None or any(a is not None and a.shape != var.shape for a in (mean, gamma, beta)):
        return None
    finite = (abs(mean) < math.inf) & (var >= 0.0) & (var < math.inf) & (var + epsilon > 0.0)
    for affine in (gamma, beta):
        if affine is not None:
            finite &= abs(affine) < math.inf
    return _Channels(
        finite.reshape(-1).nonzero()[0],
        mean[finite],
        var[finite],
        None if gamma is None else gamma[finite],
        None if beta is None else beta[finite],
    )


def _cases(layer: NormLayer, channels: _Channels, epsilon: float, limits: Mapping[str, float]) -> Iterator[_Excess]:
    var, largest = channels.var, limits["largest_half"]
    stored = abs(channels.mean).clip(min=var)
    yield _Excess("mean or variance beyond the largest float16", stored, stored > largest, largest)
    gain, shift = fold(channels.mean, var, channels.gamma, channels.beta, epsilon)
    folded = abs(gain).clip(min=abs(shift))
    yield _Excess("folded gain or shift beyond the largest float16", folded, folded > largest, largest)
    live = var > epsilon
    if live.sum() >= _FEWEST_LIVE:
        ratio = var / _median(var[live])
        message = "a live channel's variance far above the median, as a multiple of it"
        yield _Excess(message, ratio, live & (ratio > limits["ratio"]), limits["ratio"])
    if layer.eps is not None and layer.eps < limits["small_epsilon"]:
        vanishing = live & (var < limits["smallest_half"])
        message = "a live variance below the smallest float16, where epsilon does not cover it"
        yield _Excess(message, -var, vanishing, limits["smallest_half"])


def _median(values: Array) -> float:
    ordered: list[float] = sorted(values.tolist())
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _hit(part: Part, layer: NormLayer, channels: _Channels, excess: _Excess) -> Hit:
    bad = sorted(excess.bad.nonzero()[0].tolist(), key=lambda position: -excess.size[position])
    halved = any(tensor.dtype == "float16" for tensor in layer.tensors)
    return Hit(
        message=excess.message,
        advice="keep norm statistics in float32 where the model is converted to float16",
        layer=layer.name,
        part=part.name,
        value=abs(float(excess.size[bad[0]])),
        limit=excess.limit,
        channels=tuple(int(channels.places[position]) for position in bad[:_CHANNELS_SHOWN]),
        severity=Severity.WARNING if halved else Severity.NOTE,
    )
