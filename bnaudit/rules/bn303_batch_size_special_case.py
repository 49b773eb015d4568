"""A batch of one is treated in another way than larger batches.

## What it finds

An anchor is run alone and in the full batch. Reported is a batch of one

- whose output differs from that in the full batch by more than 64 rounding steps, though companions do not matter;
- at which the model raises an error: one value per channel, a squeezed axis, an index that is missing;
- whose output loses its batch axis, so that the caller reads the classes as samples.

Where it differs, sizes 2 and 3 are run too, and the message says whether 1 is the only exception.

## Why it matters

Tests and training run with larger batches, the service answers one request at a time. What fails is the case that
was never tried, or only the last, ragged batch of an epoch.

## Example

    class Head(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3), keepdim=True).squeeze()      # (N, C, 1, 1) -> (N, C)

    Head()(torch.zeros(4, 8, 5, 5)).shape      # (4, 8)
    Head()(torch.zeros(1, 8, 5, 5)).shape      # (8): the batch axis is gone

## How to fix

Name the axes, and never ask for the size of the batch:

    return x.mean(dim=(2, 3))                  # (N, C), also for N = 1
    return x.flatten(1)                        # not x.squeeze()

A batch norm that raises *Expected more than 1 value per channel* normalizes with the batch in eval mode: give it
running statistics (BN301, BN401).

## Limits

- An artifact that fixes its batch size is run at that size only.
- A model that draws random numbers draws others for another shape: not checked.
- Where companions matter, size 1 differs too; BN301 and BN401 tell that, and what it raises for want of values. A norm
  of single values at every size is told by BN406, an answer that depends on the row by BN305.
- Rounding differs between batch sizes (2e-7 to 4e-7 in float32, up to 5e-4 in float16): within 64 steps, silent.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.measurement import BatchSize, IdenticalRows, Measured, NormSize, Swap
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value
from bnaudit.single_samples import lacks_values

_LOST = "name the axis that is dropped: flatten(1) or squeeze(-1), never squeeze()"
_RAISES = "mend what fails for one sample, or pad single requests to a batch of two"
_FIXED = "take sizes from the input (x.shape[0]); a traced or exported model may have its batch size baked in"
_DIFFERS = "look for conditions on the batch size, means over it, and squeeze()"


@rule(
    id="BN303",
    severity=Severity.ERROR,
    question=Question.NEIGHBOURS,
    limits={"epsilons": NOISE},
    needs=("batch_size",),
)
def batch_size_special_case(case: Case) -> Iterator[Hit]:
    """One hit on the artifact: raised, lost its axis, or differs."""
    if case.measured is None:
        return
    epsilons = case.limits["epsilons"]
    leaks = any(swap.leaks for swap in case.measured.of(Swap))
    rows = any(beyond(found.shift, epsilons) for found in case.measured.of(IdenticalRows))
    for found in case.measured.of(BatchSize):
        if found.raised:
            if not (lacks_values(found) and (leaks or _norms_single_values(case.measured))):
                yield _raises(found)
        elif found.lost_axis:
            yield _hit(f"a batch of one loses its batch axis: {found.lost_axis}", _LOST, "axis lost")
        elif found.one is not None and beyond(found.one, epsilons) and not (leaks or rows):
            yield Hit(
                message=f"a batch of one differs {amount(found.one)}{flips(found.one)} from larger ones"
                + _others(found, epsilons),
                advice=_DIFFERS,
                value=value(found.one),
                limit=limit(found.one, epsilons),
            )


def _norms_single_values(measured: Measured) -> bool:
    """Whether a norm has one value per statistic at any batch size, as BN406 tells."""
    return any(size.uses_batch and size.values_per_statistic == 1 for size in measured.of(NormSize))


def _raises(found: BatchSize) -> Hit:
    two = {True: ", and so does one of two", False: ", one of two does not", None: ""}[found.raises_at_two]
    advice = _FIXED if found.raises_at_two else _RAISES
    return _hit(f"a batch of one raises an error{two}: {_error(found.raised)}", advice, "raised")


def _error(raised: str) -> str:
    return " ".join(raised.split()).removeprefix("the model raised ").rstrip(".")


def _hit(message: str, advice: str, what: str) -> Hit:
    # The value tells findings on the artifact apart, so it names the kind and not the numbers.
    return Hit(message=message, advice=advice, value=what, limit="as larger batches")


def _others(found: BatchSize, epsilons: float) -> str:
    sizes = {2: found.two, 3: found.three}
    tried = {size: beyond(shift, epsilons) for size, shift in sizes.items() if shift is not None}
    if not tried:
        return ""
    also = [str(size) for size, differs in tried.items() if differs]
    return f"; so do sizes {' and '.join(also)}" if also else f"; size {' and '.join(map(str, tried))} does not"
