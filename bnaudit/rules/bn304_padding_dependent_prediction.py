"""A prediction depends on how long its companions are, because it is padded to their length.

## What it finds

An input is run with companions of its own length and again with longer ones, padded as the user's own collate pads.
Its outputs differ by more than 64 rounding steps, although other companions of the same length do not matter.

## Why it matters

Short inputs get another answer when a long one happens to stand in the batch, with correct lengths and masks given.
Error rates rise with the batch size, and sorting the test set by length changes the score.

## Example

Instance norm over time, one channel, the sequence (1, 3) alone and padded with two zeros:

    norm = torch.nn.InstanceNorm1d(1)
    norm(torch.tensor([[[1.0, 3.0]]]))               # −1, 1                   mean 2, variance 1
    norm(torch.tensor([[[1.0, 3.0, 0.0, 0.0]]]))     # 0, 1.63, −0.82, −0.82   mean 1, variance 1.5

## How to fix

Compute statistics over the valid positions only, and zero what follows before every layer that looks sideways:

    mask = (positions < lengths[:, None, None]).to(x.dtype)          # (N, 1, T)
    mean = (x * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
    var = ((x - mean) ** 2 * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
    x = (x - mean) / torch.sqrt(var + 1e-5) * mask

Convolutions with bias write into the padding; mask after each of them. LayerNorm over the features alone needs no
mask. Or sort by length and batch inputs of equal length.

## Limits

- It needs inputs with a length axis and a callable that collates them (`--inputs file.py:batches`).
- Models that are made for a fixed length are not concerned, and one that reads no lengths or masks at all cannot
  know what is padding.
- Where companions of the same length matter too, BN301 tells it.
- The layer is not located.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.measurement import Padding, Swap
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value


@rule(
    id="BN304",
    severity=Severity.WARNING,
    question=Question.NEIGHBOURS,
    limits={"epsilons": NOISE},
    needs=("padding",),
)
def padding_dependent_prediction(case: Case) -> Iterator[Hit]:
    """One hit on the artifact."""
    if case.measured is None or any(swap.leaks for swap in case.measured.of(Swap)):
        return
    for found in case.measured.of(Padding):
        if beyond(found.shift, case.limits["epsilons"]):
            short, long = found.lengths
            size = f"{amount(found.shift)}{flips(found.shift)}"
            yield Hit(
                message=f"padded from {short} to {long} along axis {found.axis}, a prediction differs {size}",
                advice="take statistics and attention over valid positions only, and mask after convolutions",
                value=value(found.shift),
                limit=limit(found.shift, case.limits["epsilons"]),
            )
