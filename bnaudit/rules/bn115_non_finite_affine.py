"""NaN or infinity in the weight or bias of a norm layer.

## What it finds

A weight (gamma) or bias (beta) with a value that is NaN or infinite, in a norm layer of any kind: batch, instance,
group, layer or RMS. The finding names the first such layer in order.

## Why it matters

Unlike statistics, weight and bias are used in training mode too. A NaN there makes the channel NaN in both modes, and
everything behind it. The checkpoint was written after training had already diverged.

## Worked arithmetic

    gamma = NaN      NaN · (x − mean) / √(variance + epsilon) + beta = NaN        for every x
    beta  = inf      gamma · … + inf = inf, and inf − inf in the next norm = NaN

One step is enough: with a gradient of NaN, weight − lr · NaN = NaN, and Adam's moments stay NaN after it.

## How to fix

Go back to a checkpoint from before the divergence; resuming from this one cannot recover, because the optimizer's
state is NaN as well. Stop writing such files:

    bad = [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]
    assert not bad, bad                                                         # before torch.save

## Limits

- Only norm layers are read: convolutions may hold NaN that no rule here sees. Where norms have it, others have too.
- Tensors without values or not read are unknown. Statistics are BN106's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.description import NormLayer, Part
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_CHANNELS_SHOWN = 16


@rule(id="BN115", severity=Severity.ERROR, limits={"channels": 0})
def non_finite_affine(case: Case) -> Iterator[Hit]:
    """One hit per layer; each names the first layer of its part."""
    for part in case.subject.parts:
        first = ""
        for layer in part.layers:
            where, bad = _non_finite(layer)
            if len(bad) > case.limits["channels"]:
                first = first or layer.name or "the model itself"
                yield _hit(case, part, layer, where, bad, first)


def _non_finite(layer: NormLayer) -> tuple[str, list[int]]:
    """In which tensors and which channels, ascending."""
    names: list[str] = []
    channels: set[int] = set()
    for name, values in (("weight", layer.gamma), ("bias", layer.beta)):
        # NaN and inf alike fail the comparison, and no other value does.
        if values is not None and not (finite := abs(values) < math.inf).all():
            names.append(name)
            channels.update((~finite).reshape(-1).nonzero()[0].tolist())
    return " and ".join(names), sorted(channels)


def _hit(case: Case, part: Part, layer: NormLayer, where: str, bad: list[int], first: str) -> Hit:
    return Hit(
        message=f"channels with NaN or inf in {where}; first in order: {first}",
        advice="go back to a checkpoint from before training diverged",
        layer=layer.name,
        part=part.name,
        value=len(bad),
        limit=case.limits["channels"],
        channels=tuple(bad[:_CHANNELS_SHOWN]),
    )
