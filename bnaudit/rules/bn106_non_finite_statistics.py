"""NaN or infinity in running statistics.

## What it finds

A running mean or running variance with a value that is NaN or infinite, in any norm layer that keeps statistics. The
finding names the first such layer in the order of the file or graph: NaN spreads forward, so that is where to look.

## Why it matters

In eval mode the channel's output is NaN for every input (or, for an infinite variance, constant), and the next
convolution carries it into all channels. **Training mode hides it completely**: it does not read the buffer, so that
loss and gradients stay finite while the file is already dead.

## Worked arithmetic

One batch with a single NaN value, momentum 0.1, a running mean of 5:

    0.9 · 5 + 0.1 · NaN = NaN          and from then on
    0.9 · NaN + 0.1 · 5 = NaN          for ever: no later batch repairs it

A variance overflows in the same way: activations of 1e20 have a variance of 1e40, which is inf in float32, and
gamma · (x − mean) / √inf = 0 for every x.

## How to fix

Find the batch (`torch.autograd.set_detect_anomaly` does not look at buffers; check them after each step):

    bad = [name for name, buffer in model.named_buffers() if not torch.isfinite(buffer).all()]

Then go back to a checkpoint from before, or reset and measure: `torch.optim.swa_utils.update_bn(loader, model)` on
inputs that are finite. Usual causes: overflow in float16 activations, division by n − 1 with one value per channel
in a hand-written norm, NaN in the data, a learning-rate search whose steps were not undone.

## Limits

- A finite value that would overflow in float16 is told by BN109, a non-finite weight or bias by BN115.
- Tensors that were not read are a gap (BN118), not a finding here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bnaudit.description import NormLayer, Part
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHANNELS_SHOWN = 16


@rule(id="BN106", severity=Severity.ERROR, question=Question.BUFFERS, limits={"channels": 0})
def non_finite_statistics(case: Case) -> Iterator[Hit]:
    """One hit per layer; each names the first layer of its part."""
    for part in case.subject.parts:
        first = ""
        for layer in part.layers:
            where, bad = _non_finite(layer)
            if len(bad) > case.limits["channels"]:
                first = first or layer.name or "the model itself"
                yield _hit(case, part, layer, where, bad, first)


def _non_finite(layer: NormLayer) -> tuple[str, tuple[int, ...]]:
    """In which tensors and which channels, ascending."""
    tensors = [(name, values) for name, values in _statistics(layer) if _spoils(values)]
    channels: set[int] = set()
    for _, values in tensors:
        channels.update((~(abs(values) < math.inf)).reshape(-1).nonzero()[0].tolist())
    return " and ".join(name for name, _ in tensors), tuple(sorted(channels))


def _statistics(layer: NormLayer) -> Iterator[tuple[str, NDArray[np.float64]]]:
    for name, values in (("running_mean", layer.mean), ("running_var", layer.var)):
        if values is not None:
            yield name, values


def _spoils(values: NDArray[np.float64]) -> bool:
    # NaN and inf alike fail the comparison, and no other value does.
    return values.size > 0 and not bool((abs(values) < math.inf).all())


def _hit(case: Case, part: Part, layer: NormLayer, where: str, bad: tuple[int, ...], first: str) -> Hit:
    return Hit(
        message=f"channels with NaN or inf in {where}; first in order: {first}",
        advice="go back to an earlier checkpoint, or measure the statistics with update_bn on finite inputs",
        layer=layer.name,
        part=part.name,
        value=len(bad),
        limit=case.limits["channels"],
        channels=bad[:_CHANNELS_SHOWN],
    )
