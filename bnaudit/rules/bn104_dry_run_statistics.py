"""Running statistics come from forwards of zeros: mean 0 and one variance (1 − m)ᵏ in all channels.

## What it finds

A batch norm whose running mean is exactly 0 and whose running variance is one and the same number (1 − m)ᵏ in all
channels: the initial 1, shrunk by k training-mode forwards of constant zeros with momentum m. It has seen no data.

With the momentum known (pickled module, script), k is solved from the variance. With a counter and no momentum, m is
solved for k = counter. With neither, m = 0.1 is assumed, said so, and k must come out whole.

## Why it matters

Libraries build a model and push a dummy image of zeros through it, in training mode, to measure strides or shapes.
That is one update with batch variance 0. A few thousand real updates wash it out; a file that still shows it was
saved before training, or holds a branch that never saw data. In eval such a layer divides by √0.9 instead of by the
deviation of its input, and subtracts nothing.

## Worked arithmetic

    start                                   mean 0     variance 1
    one forward of zeros, momentum 0.1      mean 0     variance 0.9 · 1 + 0.1 · 0 = 0.9
    two                                     mean 0     variance 0.9² = 0.81

Activations of mean 20 and variance 25: 30 becomes 30 / √0.9 = 31.6 in eval instead of (30 − 20) / 5 = 2.

## How to fix

Measure strides and shapes in eval mode, so that nothing is stored:

    model.eval()
    with torch.no_grad():
        model(torch.zeros(1, 3, 640, 640))
    model.train()

For a model that is to be deployed, measure the statistics: `torch.optim.swa_utils.update_bn(loader, model)`.

## Limits

- After long training the trace is gone (0.9¹⁰⁰ = 0.00003) and nothing is reported.
- One variance in all channels with means other than exactly 0 is not this signature.
- One variance within 0.001 of 1 without counters in every layer is read as absorbed statistics (BN103).
- Assumed or solved momentum: medium confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.arithmetic import PYTORCH_MOMENTUM
from bnaudit.description import Carrier, NormLayer, Part
from bnaudit.initial_state import LEARNS_STATISTICS, updates
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_ROUNDING = {"float16": 1e-3, "bfloat16": 8e-3}
"""Relative error of a value stored so; float32 and wider: 1e-6 per update."""
_SLOWEST = 5e-4
"""A momentum below this is no reading of a counter."""


class _DryRun(NamedTuple):
    forwards: int
    momentum: float
    proved: bool
    solved: bool = False


@rule(
    id="BN104",
    severity=Severity.WARNING,
    question=Question.BUFFERS,
    limits={"assumed_momentum": PYTORCH_MOMENTUM, "absorbed_variance": 1e-3},
)
def dry_run_statistics(case: Case) -> Iterator[Hit]:
    """One hit per layer with the signature."""
    for part, layer in case.subject.layers:
        if layer.kind not in LEARNS_STATISTICS:
            continue
        variance = _constant_variance(layer)
        uncounted = (
            layer.num_batches_tracked is None and abs(1.0 - variance) <= case.limits["absorbed_variance"] * 1.001
        )
        if 0.0 < variance < 1.0 and not uncounted:
            found = _dry_run(part, layer, variance, case.limits["assumed_momentum"])
            if found is not None:
                yield _hit(part, layer, variance, found)


def _constant_variance(layer: NormLayer) -> float:
    """The variance that all channels share while every mean is exactly 0; else 0."""
    mean, var = layer.mean, layer.var
    if mean is None or var is None or not mean.size or not var.size or mean.flat[0] or mean.any():
        return 0.0
    first = var.flat[0]
    return float(first) if (var == first).all() else 0.0


def _dry_run(part: Part, layer: NormLayer, variance: float, assumed: float) -> _DryRun | None:
    momentum, counter = layer.momentum, updates(layer)
    if momentum is not None and part.carrier is not Carrier.GRAPH:
        if not isinstance(momentum, float) or not 0.0 < momentum < 1.0:
            return None
        forwards = _whole_power(variance, momentum, layer)
        return _DryRun(forwards, momentum, True) if forwards else None
    if counter and (solved := 1.0 - variance ** (1.0 / counter)) >= _SLOWEST:
        return _DryRun(counter, solved, False, True)
    forwards = _whole_power(variance, assumed, layer)
    return _DryRun(forwards, assumed, False) if forwards else None


def _whole_power(variance: float, momentum: float, layer: NormLayer) -> int:
    """The k ≥ 1 with variance = (1 − momentum)ᵏ within rounding, for a variance below 1; 0: none."""
    power = round(math.log(variance) / math.log1p(-momentum))
    dtype = layer.running_var.dtype if layer.running_var is not None else ""
    rounding = min(_ROUNDING.get(dtype, 1e-6 * (power + 1)), 0.2 * momentum)
    fits = math.isclose(variance, (1.0 - momentum) ** power, rel_tol=rounding)
    return power if fits else 0


def _hit(part: Part, layer: NormLayer, variance: float, found: _DryRun) -> Hit:
    how = "" if found.proved else " (solved from the counter)" if found.solved else " (assumed)"
    count = f"{found.forwards} forward{'s' if found.forwards > 1 else ''}"
    cause = f"{count} of zeros, momentum {found.momentum:.3g}{how}"
    return Hit(
        message=f"mean 0 and one variance in all channels: {cause}, no data",
        advice="run shape and stride probes in eval mode, and measure the statistics with update_bn before deploying",
        layer=layer.name,
        part=part.name,
        value=variance,
        confidence=Confidence.HIGH if found.proved else Confidence.MEDIUM,
    )
