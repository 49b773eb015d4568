"""Too few updates: much of the running statistics is still the initial mean 0 and variance 1.

## What it finds

After n updates with momentum m, a share (1 − m)ⁿ of the running statistics is what they started from. Reported when
the share is at least 5 % **and the values allow it**: a share r of the initial variance 1 forces every running
variance to be at least r, so one channel below r, in any layer with the same counter, proves that the statistics did
not start from 0 and 1.

A warning; an error when the share is at least 50 % and the momentum is known (pickled module, script). A state dict
does not hold the momentum: 0.1, PyTorch's default, is then assumed and said so, at medium confidence.

## Why it matters

In eval the layer normalizes with a mixture of the data and an arbitrary starting point. In training it uses the
batch, so that the training loss shows nothing.

## Worked arithmetic

    momentum 0.1,  n = 28      0.9²⁸  =  5.2 %    reported
    momentum 0.1,  n = 29      0.9²⁹  =  4.7 %    silent
    momentum 0.01, n = 30      0.99³⁰ = 74 %      reported where the momentum is known: one epoch of 30 batches

With true mean 20 and variance 25, the last one stores mean 0.26 · 20 = 5.2 and variance 0.74 · 1 + 0.26 · 25 = 7.2:
the activation 30, which is 2 standard deviations out, becomes (30 − 5.2) / √7.2 = 9.2.

## How to fix

Measure the statistics again on training data, which forgets the initial values at once:

    torch.optim.swa_utils.update_bn(loader, model)

or train on; or raise the momentum for a short training. Where the counter is small because statistics were reset and
few batches were given for recalibration, give more.

## Limits

- Counter 0 or missing beside statistics that moved: ported weights, silent. So is a broken bound (`update_bn`, short
  fine-tunes of pretrained statistics), momentum 0, and `momentum=None`, which keeps nothing of the start.
- A network in which every variance happens to lie above the share is reported even if its statistics are good: the
  file cannot tell. Measuring them once settles it.
- With an assumed momentum of 0.1, a model that trained with 0.01 and stopped after 30 to 300 updates is missed.
- Weights and biases that were never trained either: a note, a fresh model with a few forwards behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.arithmetic import PYTORCH_MOMENTUM, residual_share
from bnaudit.description import CUMULATIVE, Carrier, NormLayer, Part
from bnaudit.initial_state import LEARNS_STATISTICS, has_initial_affine, updates
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_ROUNDING = 0.99
"""A variance of exactly the share may be stored a little below it: bfloat16 keeps 8 bits."""


@rule(
    id="BN105",
    severity=Severity.WARNING,
    question=Question.BUFFERS,
    limits={"share": 0.05, "severe_share": 0.5, "assumed_momentum": PYTORCH_MOMENTUM},
    yields_to=("BN103", "BN104"),
)
def immature_statistics(case: Case) -> Iterator[Hit]:
    """One hit per layer whose counter is too small, unless the values contradict the counter."""
    assumed = case.limits["assumed_momentum"]
    for part in case.subject.parts:
        norms = [layer for layer in part.layers if layer.kind in LEARNS_STATISTICS and layer.mean is not None]
        fresh = all(has_initial_affine(layer) for layer in norms) and any(layer.gamma is not None for layer in norms)
        for counter, layers in _by_counter(norms).items():
            shares = [_share(part, layer, counter, assumed) for layer in layers]
            if any(_contradicts(layer, share) for layer, share in zip(layers, shares, strict=True)):
                continue
            for layer, share in zip(layers, shares, strict=True):
                if share >= case.limits["share"]:
                    yield _hit(case, part, layer, share, fresh)


def _by_counter(norms: list[NormLayer]) -> dict[int, list[NormLayer]]:
    groups: dict[int, list[NormLayer]] = {}
    for layer in norms:
        if counter := updates(layer):
            groups.setdefault(counter, []).append(layer)
    return groups


def _knows_momentum(part: Part, layer: NormLayer) -> bool:
    """In a graph momentum has no effect, and exporters write anything."""
    return layer.momentum is not None and part.carrier is not Carrier.GRAPH


def _is_called_without(part: Part, layer: NormLayer) -> bool:
    """Whether a trace in eval mode calls it with momentum 0: PyTorch does so where it is None, and where it is 0.

    Any other momentum stands in the call. Neither leaves a share of the initial values.
    """
    return part.carrier is Carrier.SCRIPT and layer.graph_training is False and layer.momentum is None


def _share(part: Part, layer: NormLayer, counter: int, assumed: float) -> float:
    momentum = layer.momentum if _knows_momentum(part, layer) else assumed
    if momentum is None or momentum is CUMULATIVE or _is_called_without(part, layer):
        return 0.0
    # With momentum 0 nothing is ever learnt: statistics that moved were loaded, and virgin ones are BN103's.
    return residual_share(momentum, counter) if 0.0 < momentum < 1.0 else 0.0


def _contradicts(layer: NormLayer, share: float) -> bool:
    """Whether a variance lies below the share of the initial 1 that would be in it. NaN lies nowhere."""
    var = layer.var
    return share > 0.0 and var is not None and bool((var < share * _ROUNDING).any())


def _hit(case: Case, part: Part, layer: NormLayer, share: float, fresh: bool) -> Hit:
    known = _knows_momentum(part, layer)
    momentum = layer.momentum if known else case.limits["assumed_momentum"]
    severe = known and share >= case.limits["severe_share"]
    count = updates(layer) or 0
    how = f"{count} {'update' if count == 1 else 'updates'}, momentum {momentum:g}{'' if known else ' (assumed)'}"
    return Hit(
        message=f"{share:.0%} of the statistics is still the initial value: {how}",
        advice="measure the statistics on training data: torch.optim.swa_utils.update_bn(loader, model)",
        layer=layer.name,
        part=part.name,
        value=round(share, 4),
        limit=case.limits["share"],
        severity=Severity.NOTE if fresh else Severity.ERROR if severe else Severity.WARNING,
        confidence=Confidence.HIGH if known else Confidence.MEDIUM,
    )
