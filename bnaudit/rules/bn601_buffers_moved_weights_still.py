"""Statistics moved while gamma and beta are equal bit by bit: frozen layers that kept updating.

## What it finds

Pairs of layers whose weight and bias are the baseline's, bit by bit, while mean or variance are not. The size of the
move is told per layer: the shift of the mean in standard deviations of the baseline, the ratio of the variances, the
difference of the batch counters. Some causes have a name:

- the counter grew by 1 or 2: a stray forward in training mode, before saving or at export;
- the statistics are the initial 0 and 1 again: the buffers were lost on the way;
- mean and variance changed places in a conversion, or the variance has an epsilon in it in every channel;
- values are not finite any more.

## Why it matters

`requires_grad=False` and `torch.no_grad()` stop gradients, not running statistics: a "frozen" backbone in training
mode takes over the statistics of the new data with every forward, while its weights, all that anybody compares, stay
what they were. Eval mode then computes something else than the baseline does, with every test of the weights green.

## Worked arithmetic

Baseline mean 2, variance 4. One batch of zeros goes through in training mode, momentum 0.1:

    mean      0.9 · 2 + 0.1 · 0 = 1.8      moved by 0.2 / √4 = 0.1 sd
    variance  0.9 · 4 + 0.1 · 0 = 3.6      ratio 4 / 3.6 = 1.11
    counter   + 1

A second one: 1.62 and 3.24, 0.19 sd. After 50: 0.0103 and 0.0206; nothing is left of the trained statistics.

## How to fix

Take the baseline's statistics back, and keep the norms in eval mode whenever they are not meant to learn:

    model.load_state_dict(torch.load("baseline.pt"))
    model.eval()        # before any forward that is not a training step
    def train(self, mode=True):                     # of a model with a frozen backbone
        super().train(mode)
        self.backbone.eval()

Where the statistics were measured anew on purpose (`update_bn`, precise batch norm), say so, and it is a note:

    bnaudit compare baseline.pt model.pt --intended BN601

## Limits

- Batch counters alone are no finding. Nor are values that differ by the rounding of a copy in float16 or bfloat16.
- Without weight and bias, or while both still are 1 and 0, nothing shows that training ended: BN607, or a warning.
- A recalibration is not told from a stray forward: both move buffers only.
- Mean and variance off by one factor are BN608.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bnaudit.comparison import Move, Pair
from bnaudit.description import NormLayer
from bnaudit.initial_state import is_virgin
from bnaudit.matching.configuration import has_identity_affine
from bnaudit.matching.wording import counter_change, moved_statistics, not_finite_any_more, rounded
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ADVICE = (
    "take the baseline's statistics, and keep these norms in eval mode; measured anew on purpose: --intended BN601"
)
_STRAY = 2
"""Most batches that count as stray."""
_EPSILONS = (1e-8, 1e-2)
_FLOAT32 = 2.0**-23


@rule(id="BN601", severity=Severity.ERROR, needs=("baseline",), yields_to=("BN608",))
def buffers_moved_weights_still(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    if case.comparison is None:
        return
    part = case.comparison.subject_part.name
    for pair, move in zip(case.comparison.matching.pairs, case.comparison.moves, strict=True):
        if move.affine_equal and move.statistics_equal is False:
            yield _hit(pair, move, part)


def _hit(pair: Pair, move: Move, part: str) -> Hit:
    # That both are as built, 1 and 0, says little.
    trained = not has_identity_affine(pair.subject)
    return Hit(
        message=f"weight and bias equal, statistics moved: {moved_statistics(move)}{_cause(pair, move)}",
        advice=_ADVICE,
        layer=move.layer,
        part=part,
        value=rounded(move.mean_shift),
        channels=move.channels,
        confidence=Confidence.HIGH if trained else Confidence.MEDIUM,
    )


def _cause(pair: Pair, move: Move) -> str:
    """What the values show, in words behind the numbers."""
    if is_virgin(pair.subject):
        return "; they are the initial 0 and 1: buffers were lost"
    if _are_swapped(pair.subject, pair.baseline):
        return "; mean and variance changed places"
    if broken := not_finite_any_more(pair):
        return f"; {broken}"
    if (constant := _added(pair.subject, pair.baseline)) is not None:
        return f"; the variance has {constant:+.3g} in every channel: an epsilon"
    change = counter_change(move)
    if change is not None and 1 <= change <= _STRAY:
        return "; a stray forward in training mode" if change == 1 else "; stray forwards in training mode"
    return ""


def _are_swapped(subject: NormLayer, baseline: NormLayer) -> bool:
    return _is_same(subject.mean, baseline.var) and _is_same(subject.var, baseline.mean)


def _added(subject: NormLayer, baseline: NormLayer) -> float | None:
    """The constant of an epsilon's size that all variances differ by, with equal means; None: no such one."""
    one, other = subject.var, baseline.var
    if one is None or other is None or one.shape != other.shape or not _is_same(subject.mean, baseline.mean):
        return None
    change = one - other
    constant = float(change.mean())
    spread = abs(change - constant)
    small = bool((spread <= 0.01 * abs(constant) + _FLOAT32 * abs(other)).all())
    # Within the last bits of the variances any change looks the same in every channel.
    small = small and 2 * int((abs(constant) > 8.0 * _FLOAT32 * abs(other)).sum()) >= other.size
    return constant if small and change.size > 1 and _EPSILONS[0] <= abs(constant) <= _EPSILONS[1] else None


def _is_same(one: Array | None, other: Array | None) -> bool:
    return one is not None and other is not None and one.shape == other.shape and bool((one == other).all())
