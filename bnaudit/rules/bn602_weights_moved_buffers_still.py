"""Gamma and beta moved while the statistics are equal bit by bit: they describe another network.

## What it finds

Pairs of layers whose weight or bias is not the baseline's, while mean and variance are, bit by bit. A warning; a note
where one side is known to hold averaged weights (EMA, SWA) and weights and biases are at most 5 % apart.

## Why it matters

Statistics describe the activations of the network that made them. When the weights moved on without them,

- averaged weights were saved without `update_bn`;
- training ran with the norms in eval mode, or with momentum 0;
- federated or distributed aggregation skipped the buffers (`parameters()` instead of `state_dict()`);
- the checkpoint was put together from two.

Only the second is sometimes meant: a fine-tuning with the norms held in eval mode computes the same in training and
eval, and there the statistics are constants like any other.

## Worked arithmetic

A convolution's weights grow by 20 % in training, and the channel's activations with them: mean 2 becomes 2.4,
deviation 1 becomes 1.2. With the old statistics the activation 2.4, the new average, gives

    (2.4 − 2) / 1 = 0.4    instead of 0
    spread 1.2             instead of 1

and the next layer gets it as its input.

## How to fix

Measure the statistics with the weights that are deployed:

    torch.optim.swa_utils.update_bn(loader, model)

or let what averages or aggregates include the buffers: `state_dict()`, `use_buffers=True`. Where the norms were meant
to stay in eval mode, say so, and it is a note:

    bnaudit compare baseline.pt model.pt --intended 'BN602=backbone.*'

## Limits

- Only norm layers are compared: weights of convolutions that moved alone show nothing here.
- A layer whose gamma is ignored on one side is BN608. Statistics that are equal up to the rounding of a copy in
  float16 or bfloat16 are equal.
- A fine-tuning with norms in eval mode cannot be told from the defects by the files alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.averaged_weights import speaks_of_average
from bnaudit.comparison import Comparison
from bnaudit.description import Part
from bnaudit.matching.wording import moved_affine, rounded
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule


@rule(
    id="BN602",
    severity=Severity.WARNING,
    needs=("baseline",),
    yields_to=("BN608",),
    limits={"affine_difference": 0.05},
)
def weights_moved_buffers_still(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    if case.comparison is None:
        return
    still = [move for move in case.comparison.moves if move.affine_equal is False and move.statistics_equal]
    limit = case.limits["affine_difference"]
    near = all(move.affine_change is not None and move.affine_change <= limit for move in still)
    documented = near and _holds_averages(case.comparison)
    for move in still:
        yield Hit(
            message=f"statistics equal, weight and bias moved {moved_affine(move)}",
            advice="nothing to do: averaged weights with copied statistics lose no accuracy at this distance"
            if documented
            else "measure statistics with these weights (update_bn); norms in eval mode on purpose: --intended BN602",
            layer=move.layer,
            part=case.comparison.subject_part.name,
            value=rounded(move.affine_change),
            channels=move.channels,
            severity=Severity.NOTE if documented else None,
        )


def _holds_averages(comparison: Comparison) -> bool:
    return any(_is_average(part) for part in (comparison.subject_part, comparison.baseline_part))


def _is_average(part: Part) -> bool:
    return part.averaged_over is not None or speaks_of_average(part.name)
