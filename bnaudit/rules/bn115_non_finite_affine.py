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

from collections.abc import Iterator

from bnaudit.finiteness import non_finite
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_CHANNELS_SHOWN = 16


@rule(id="BN115", severity=Severity.ERROR, limits={"channels": 0})
def non_finite_affine(case: Case) -> Iterator[Hit]:
    """One hit per layer; each names the first layer of its part."""
    for part in case.subject.parts:
        for found in non_finite(
            part, lambda layer: (("weight", layer.gamma), ("bias", layer.beta)), case.limits["channels"]
        ):
            yield Hit(
                message=f"channels with NaN or inf in {found.tensors}; first in order: {found.first}",
                advice="go back to a checkpoint from before training diverged",
                layer=found.layer.name,
                part=part.name,
                value=len(found.channels),
                limit=case.limits["channels"],
                channels=found.channels[:_CHANNELS_SHOWN],
            )
