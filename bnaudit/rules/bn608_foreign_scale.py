"""Mean and variance are off by one common factor, or gamma is ignored on one side.

## What it finds

- Pairs of layers in which mean and variance are the baseline's times *one and the same* factor, over all channels: an
  accumulator that was never divided by its count, or divided twice. The factor is fitted to means and to variances
  apart; the two must agree, and explain all channels, within 5 % (of mean and deviation, and of variance).
- Pairs in which one side has gamma 1 throughout (or none) and the other a trained one, while beta or the statistics
  show that it is the same layer: a conversion or an option (`scale=False`) that dropped it.

## Why it matters

Both come from re-implementations and conversions, load without complaint, and change every prediction. A mean and a
variance that are 100 times too large shift all activations and shrink them by 10; the next norm undoes the shrinking
and not the shift.

## Worked arithmetic

Statistics summed over 100 batches and not divided: mean 1 becomes 100, variance 4 becomes 400. The activation 3:

    right   (3 −   1) / √4   =  1
    here    (3 − 100) / √400 = −4.85

Input scaled by a factor s is not this defect: it moves the mean by s and the variance by s².

## How to fix

Divide what was summed by the count of what was summed, once:

    layer.running_mean /= count
    layer.running_var /= count

or measure the statistics anew with `torch.optim.swa_utils.update_bn(loader, model)`. A gamma that was dropped: convert
again with it, or multiply it into the next layer.

## Limits

- Factors between 1/1.5 and 1.5 are not told from drift. Fewer than three live channels decide nothing.
- A model that was trained in between is not compared with itself from before: BN607.
- A gamma of 1 on both sides, or one that was never trained, says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bnaudit.comparison import Move, Pair
from bnaudit.description import NormLayer
from bnaudit.initial_state import has_initial_affine
from bnaudit.matching.rounding import same_values
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_FEWEST_CHANNELS = 3


@rule(id="BN608", severity=Severity.WARNING, needs=("baseline",), limits={"factor": 1.5, "tolerance": 0.05})
def foreign_scale(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    if case.comparison is None or not case.comparison.matching.pairs:
        return
    import numpy as np

    part = case.comparison.subject_part.name
    with np.errstate(all="ignore"):
        found = [
            hit
            for pair, move in zip(case.comparison.matching.pairs, case.comparison.moves, strict=True)
            for hit in _hits(pair, move, part, case.limits)
        ]
    yield from found


def _hits(pair: Pair, move: Move, part: str, limits: Mapping[str, float]) -> Iterator[Hit]:
    factor = _factor(pair, limits) if move.statistics_equal is False else None
    if factor is not None:
        yield Hit(
            message=f"mean and variance are both {factor:.4g} × the baseline's: a sum that was not divided by its count"
            if factor > 1
            else f"mean and variance are both the baseline's ÷ {1 / factor:.4g}: divided by a count too much",
            advice="divide what was summed by its count, once, or measure the statistics anew (update_bn)",
            layer=move.layer,
            part=part,
            value=float(f"{factor:.4g}"),
            limit=limits["factor"],
        )
    elif side := _ignores_gamma(pair, move):
        yield Hit(
            message=f"gamma is 1 throughout {side}, and trained on the other side",
            advice="convert again with gamma (scale), or multiply it into the layer behind",
            layer=move.layer,
            part=part,
        )


def _factor(pair: Pair, limits: Mapping[str, float]) -> float | None:
    """The one factor of mean and variance; None: there is none, or none that is told from drift."""
    statistics = (pair.subject.mean, pair.baseline.mean, pair.subject.var, pair.baseline.var)
    known = [values for values in statistics if values is not None]
    if len(known) < len(statistics) or len({values.shape for values in known}) > 1:
        return None
    mean, base_mean, var, base_var = known
    if mean.size < _FEWEST_CHANNELS:
        return None
    tolerance, least = limits["tolerance"], limits["factor"]
    deviation = base_var.clip(min=0.0) ** 0.5
    of_means = _fitted(mean, base_mean, deviation, tolerance)
    of_variances = _fitted(var, base_var, 0.0 * base_var, tolerance)
    if of_means is None or of_variances is None or abs(of_means - of_variances) > tolerance * of_variances:
        return None
    return of_variances if not 1 / least < of_variances < least else None


def _fitted(values: Array, reference: Array, spread: Array, tolerance: float) -> float | None:
    """The factor between them over all channels, least squares; None: a channel is not finite, or does not fit.

    Each channel may be off by `tolerance` of its size and spread. At least three have to stand out from that.
    """
    import numpy as np

    square = float((reference**2).sum())
    factor = float((values * reference).sum()) / square if square > 0.0 else 0.0
    if not np.isfinite(factor) or factor <= 0.0:
        return None
    size = np.abs(reference)
    fits = np.abs(values - factor * reference) <= factor * tolerance * (size + spread)
    telling = int((size > 2.0 * tolerance * spread).sum())
    return factor if bool(fits.all()) and telling >= _FEWEST_CHANNELS else None


def _ignores_gamma(pair: Pair, move: Move) -> str:
    """Which side does: "here", "in the baseline", "": neither, or it is not shown that it is the same layer."""
    ours, theirs = _is_one(pair.subject), _is_one(pair.baseline)
    if move.affine_equal is not False or ours == theirs:
        return ""
    other = pair.baseline if ours else pair.subject
    if has_initial_affine(other) or not (move.statistics_equal or _same_beta(pair)):
        return ""
    return "here" if ours else "in the baseline"


def _is_one(layer: NormLayer) -> bool:
    """Whether gamma is 1 in every channel, or absent; not one that is named without values."""
    if layer.weight is None:
        return True
    return layer.gamma is not None and bool((layer.gamma == 1.0).all())


def _same_beta(pair: Pair) -> bool:
    """Whether both have the same beta, and one that was trained."""
    one, other = pair.subject.beta, pair.baseline.beta
    return one is not None and other is not None and bool(one.any()) and same_values(one, other)
