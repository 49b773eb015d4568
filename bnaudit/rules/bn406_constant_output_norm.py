"""A norm computes each statistic from one value, so that its output does not depend on its input.

## What it finds

A normalization that uses its own input and has one value per statistic: GroupNorm with as many groups as channels on
inputs without spatial axes, InstanceNorm on a 1 × 1 map, LayerNorm over one feature, batch norm in training form on
one sample of size 1 × 1.

## Why it matters

The mean of one value is the value itself, and its variance is 0. Whatever comes in, 0 comes out, then beta: everything
before this layer is without effect, and no gradient flows back. The shapes fit, nothing raises, the loss stays high.

## Worked arithmetic

    (x − mean) / √(variance + ε) · gamma + beta  =  (x − x) / √(0 + ε) · gamma + beta  =  beta

GroupNorm(4, 4) on inputs of shape (N, 4) has one value in each group: its output is (0, 0, 0, 0), but for
rounding, for every input. This is what automatic replacements of batch norm by GroupNorm make of a BatchNorm1d.

## How to fix

    torch.nn.GroupNorm(1, 4)         # one group of all four channels; the same as LayerNorm(4)
    torch.nn.LayerNorm(4)            # over the features of one sample
    torch.nn.Identity()              # on a 1 × 1 map InstanceNorm has nothing to normalize

## Limits

- RMSNorm over one value keeps the sign of its input and nothing else; it is reported and says so.
- It is found at the shapes of the inputs that were run: on larger images an InstanceNorm may have more values.
- Batch norm with stored statistics needs no values: never reported.
- Two or three values per statistic are poor too, and not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind
from bnaudit.measurement import NormSize
from bnaudit.places import by_place, described, layer_at, norm_layer
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_ADVICE = "normalize over more than one value: fewer groups, the features of one sample (LayerNorm), or no norm here"


@rule(id="BN406", severity=Severity.ERROR, needs=("train_eval_gap",))
def constant_output_norm(case: Case) -> Iterator[Hit]:
    """One hit per layer or module."""
    if case.measured is None:
        return
    single = [size for size in case.measured.of(NormSize) if size.uses_batch and size.values_per_statistic == 1]
    for name, found in by_place((layer_at(case.subject, size.place, size.layer), size) for size in single).items():
        yield _hit(case, name, found[0])


def _hit(case: Case, name: str | None, size: NormSize) -> Hit:
    layer = norm_layer(case.subject, name)
    rms = layer is not None and layer.kind is NormKind.RMS
    effect = "its output is the sign of its input" if rms else "its output does not depend on its input"
    at = described(size.place)
    return Hit(
        message=f"one value per statistic: {effect}" + (f" ({at})" if at else ""),
        advice=_ADVICE,
        layer=name,
        value=1,
        limit=2,
    )
