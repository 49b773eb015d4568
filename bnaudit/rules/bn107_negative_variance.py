"""A running variance is negative.

## What it finds

A running variance below 0, which no average of squares can be. An **error** where variance + epsilon ≤ 0, because
there is no root to divide by; a **warning** where epsilon still lifts it above 0. A state dict does not hold epsilon:
a variance of −0.001 or below is beyond every usual one, and for smaller ones PyTorch's 1e-5 is assumed and said so.

The message names the cause when the values have its signature:

- **mean and variance swapped**: the "variance" has both signs and the "mean" is never negative;
- **E[x²] − E[x]² in float32**: every negative value is below 0.0001 of its channel's mean squared;
- **an epsilon was subtracted**: no value is below −epsilon, and some negative channel has a mean below 1.

## Why it matters

√(negative) is NaN: the channel, and after the next layer the whole output, is NaN in eval mode. Just above zero it
is worse to find: the gain 1 / √(variance + epsilon) becomes huge, and the output is finite and wrong.

## Worked arithmetic

With epsilon 1e-5, one channel's gain 1 / √(variance + epsilon):

    variance  0          316
    variance −0.9e-5    1000
    variance −1e-5       division by zero
    variance −2e-5       NaN

Cancellation: for mean 1000 and deviation 0.1, E[x²] is 1000000.01. float32 has steps of 0.0625 there, so the
difference E[x²] − E[x]² comes out as −0.0625, 0 or 0.0625 instead of 0.01.

## How to fix

- Swapped: set_weights in Keras takes gamma, beta, **mean, variance**; exchange them in the converter.
- Cancellation: compute variances from deviations, or merge moments (Chan et al.), in float64.
- Subtracted epsilon: some loaders convert old checkpoints by variance − epsilon; do not apply that to new ones.

Otherwise measure again: `torch.optim.swa_utils.update_bn(loader, model)`.

## Limits

- The signature is a hint, not a proof. NaN and −inf are told by BN106 and not counted here.
- A variance of exactly 0 is a dead channel and fine, unless epsilon is known to be 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bnaudit.arithmetic import PYTORCH_EPS
from bnaudit.description import NormLayer, Part
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHANNELS_SHOWN = 16
_CANCELLATION = 1e-4
"""Of the mean squared: float32 rounds each of E[x²] and E[x]² by 6e-8, and plain sums of many values by far more."""


@rule(
    id="BN107",
    severity=Severity.ERROR,
    question=Question.BUFFERS,
    limits={"assumed_epsilon": PYTORCH_EPS, "largest_epsilon": 1e-3},
    yields_to=("BN106",),
)
def negative_variance(case: Case) -> Iterator[Hit]:
    """One hit per layer, with its lowest variance as the value."""
    for part, layer in case.subject.layers:
        var = layer.var
        if var is None:
            continue
        lowest = _lowest(var)
        if lowest < 0.0 or (layer.eps is not None and lowest + layer.eps <= 0.0):
            yield _hit(part, layer, var, lowest, case.limits)


def _lowest(var: NDArray[np.float64]) -> float:
    """The lowest finite variance; infinity without one."""
    finite = var[abs(var) < math.inf]
    return float(finite.min()) if finite.size else math.inf


def _hit(part: Part, layer: NormLayer, var: NDArray[np.float64], lowest: float, limits: Mapping[str, float]) -> Hit:
    proved = layer.eps is not None or lowest <= -limits["largest_epsilon"]
    epsilon = layer.eps if layer.eps is not None else limits["assumed_epsilon"]
    no_root = lowest + epsilon <= 0.0
    assumed = "" if proved else f", epsilon taken as {epsilon:g}"
    cause = _signature(layer, var, epsilon) if lowest < 0.0 else "variance 0 with epsilon 0"
    consequence = "no root to divide by" if no_root else "epsilon still lifts it above 0"
    bad = (var <= -epsilon if no_root else var < 0.0) & (abs(var) < math.inf)
    worst = sorted(bad.reshape(-1).nonzero()[0].tolist(), key=lambda channel: float(var.flat[channel]))
    return Hit(
        message=f"lowest running variance below 0: {consequence}{assumed}" + (f"; {cause}" if cause else ""),
        advice="correct the converter if a cause is named; else measure the statistics with update_bn",
        layer=layer.name,
        part=part.name,
        value=lowest,
        limit=-epsilon if no_root else 0,
        channels=tuple(worst[:_CHANNELS_SHOWN]),
        severity=Severity.ERROR if no_root else Severity.WARNING,
        confidence=Confidence.HIGH if proved else Confidence.MEDIUM,
    )


def _signature(layer: NormLayer, var: NDArray[np.float64], epsilon: float) -> str:
    mean = layer.mean
    if mean is None or mean.shape != var.shape:
        return ""
    finite = (abs(var) < math.inf) & (abs(mean) < math.inf)
    mean, var = mean[finite], var[finite]
    negative = var < 0.0
    if (var >= -1.001 * epsilon).all() and (abs(mean[negative]) < 1.0).any():
        return "it fits an epsilon subtracted from it"
    # Compared as roots, because the square of a mean may overflow.
    if ((-var[negative]) ** 0.5 <= _CANCELLATION**0.5 * abs(mean[negative])).all():
        return "it fits E[x²] − E[x]² in float32"
    if (mean >= 0.0).all() and mean.any():
        return "it fits mean and variance swapped"
    return ""
