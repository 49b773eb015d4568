"""A batch norm's weight is exactly 0 in every channel.

## What it finds

A batch norm whose weight (gamma) is exactly 0 in all channels, in a layer that was trained.

## Why it matters

The layer's output is its bias for every input: 0 · (x − mean) / √(variance + epsilon) + beta = beta. Everything
computed before it is wasted, and if it is the last norm of a residual branch, the branch adds a constant. That can be
what was wanted (a block that was pruned away, a branch that training never switched on) or the trace of a loader that
left a zero-initialised weight in place.

## Worked arithmetic

The last norm of a residual block, gamma 0, beta 0.25, for two different inputs x of the branch:

    branch(x₁) = 0 · 1.7 + 0.25 = 0.25
    branch(x₂) = 0 · (−40) + 0.25 = 0.25         block(y) = y + 0.25 whatever the branch computes

## How to fix

Nothing, if the block was pruned: remove it from the code and add its bias to the next one, to save the time. If not,
compare the weight with the checkpoint that was loaded: `zero_init_residual=True` sets it to 0 at construction, and a
key that does not match leaves it there.

## Limits

- A layer that was never trained (initial statistics, counter 0 or missing, bias 0) is initialised so on purpose
  (zero-init residual): silent.
- Single channels with weight 0 are pruned channels, which are common and healthy: silent.
- Only batch norm: some RMS norms store weight − 1, for which 0 is the neutral value.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormLayer
from bnaudit.initial_state import is_virgin, was_trained
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule


@rule(id="BN116", severity=Severity.NOTE)
def dead_layer(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        if layer.kind.is_batch and _all_zero(layer) and not (is_virgin(layer) and not was_trained(layer)):
            yield Hit(
                message="weight is exactly 0 in every channel: the output is the bias, whatever the input",
                advice="check that the block was meant to be switched off; after loading, compare the keys",
                layer=layer.name,
                part=part.name,
            )


def _all_zero(layer: NormLayer) -> bool:
    gamma = layer.gamma
    return gamma is not None and gamma.size > 0 and gamma.flat[0] == 0.0 and not gamma.any()
