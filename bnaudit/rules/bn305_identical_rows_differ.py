"""Two identical inputs in one batch get different outputs.

## What it finds

One of the anchors is a copy of another, bit for bit. Their outputs in the same forward differ by more than 64 rounding
steps. No reference is needed to know that at least one of them is wrong.

In a model that amplifies rounding, the same batch is run in float64 too: what then shrinks to rounding was rounding.

## Why it matters

A row's answer depends on its position in the batch: a faulty kernel (a memory layout, a vector width or a size that it
handles wrongly), an index over the flattened batch, a buffer of fixed length that is added along the batch axis.

## Example

A table of positions that is added along axis 0, the batch:

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.arange(8.0)[:, None])

        def forward(self, x):                          # (N, features)
            return x + self.positions[: len(x)]

    Net()(torch.tensor([[5.0], [5.0]]))                # 5 and 6

## How to fix

Compare the operator that comes first with the same computed row by row; try another memory format, device or library
version, and without the framework's optimizations. In your own code, look at what is indexed or added along axis 0:

    return x + self.positions[: x.shape[1], 0]         # along the sequence, not along the batch

## Limits

- Where companions matter, rows may differ for that reason: BN301 tells it. A model that draws random numbers draws
  others for each row: not checked.
- Rounding may differ by position in the batch (vectorized tails): within 64 steps, silent.
- Two equal rows may both be wrong in the same way.
- The operator is not located.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.measurement import IdenticalRows, Repeat, Swap
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value

_AMPLIFIED = 100.0
"""Deep nets may amplify rounding a hundred times; beyond that it is a fault of the kernel, in one dtype at least."""


@rule(
    id="BN305",
    severity=Severity.ERROR,
    question=Question.NEIGHBOURS,
    limits={"epsilons": NOISE},
    needs=("repeats",),
)
def identical_rows_differ(case: Case) -> Iterator[Hit]:
    """One hit on the artifact."""
    if case.measured is None or any(swap.leaks or swap.seeded for swap in case.measured.of(Swap)):
        return
    if any(beyond(repeat.restored, NOISE) for repeat in case.measured.of(Repeat)):
        return
    for found in case.measured.of(IdenticalRows):
        if _is_fault(found, case.limits["epsilons"]):
            size = f"{amount(found.shift)}{flips(found.shift)}"
            yield Hit(
                message=f"two rows that are equal bit by bit get outputs that differ {size}",
                advice="look at what is indexed or added along the batch axis; then try another device or version",
                value=value(found.shift),
                limit=limit(found.shift, case.limits["epsilons"]),
            )


def _is_fault(found: IdenticalRows, epsilons: float) -> bool:
    if not beyond(found.shift, epsilons):
        return False
    return found.double is None or beyond(found.double, epsilons) or beyond(found.shift, epsilons * _AMPLIFIED)
