"""Mean and variance are off by one common factor, or gamma is ignored on one side.

## What it finds

- Pairs of layers in which mean and variance are the baseline's times *one and the same* factor, over all channels: an
  accumulator that was never divided by its count, or divided twice. The factor is fitted to means and to variances
  apart. The two must agree, and explain every channel, to a tenth of the factor's logarithm and at most 50 %: factor
  2 to 7 %, factor 44 to 38 %; a sum over other batches than the baseline's average is no exact multiple of it.
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

- Factors between 1/2 and 2 are not told from drift. Fewer than three live channels decide nothing.
- A model that was trained in between is not compared with itself from before: BN607.
- A gamma of 1 on both sides, or one that was never trained, says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bnaudit.arithmetic import PYTORCH_EPS
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
    _Statistics = tuple[Array, Array, Array, Array]

_FEWEST_CHANNELS = 3
_LOOSEST = 0.5
"""Largest tolerance, however large the factor is."""
_EXACT = 1e-3
"""The tolerance of a sum over the same batches, which is an exact multiple: then small means tell it, too."""


@rule(id="BN608", severity=Severity.WARNING, needs=("baseline",), limits={"factor": 2.0, "tolerance": 0.1})
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
    mean, base_mean, var, base_var = pair.subject.mean, pair.baseline.mean, pair.subject.var, pair.baseline.var
    if mean is None or base_mean is None or var is None or base_var is None:
        return None
    statistics = (mean, base_mean, var, base_var)
    if mean.size < _FEWEST_CHANNELS:
        return None
    factor = _fitted(var, base_var)
    if factor is None or 1 / limits["factor"] < factor < limits["factor"]:
        return None
    loose = min(limits["tolerance"] * abs(math.log(factor)), _LOOSEST)
    both = (factor, _fitted(mean, base_mean))
    return factor if any(_holds(both, statistics, tolerance) for tolerance in (loose, min(_EXACT, loose))) else None


def _holds(factors: tuple[float, float | None], statistics: _Statistics, tolerance: float) -> bool:
    """Whether the factors of variance and mean are one, and explain all channels, to this relative tolerance."""
    mean, base_mean, var, base_var = statistics
    factor, of_means = factors
    if of_means is None or abs(math.log(of_means / factor)) > tolerance:
        return False
    deviation = (base_var.clip(min=0.0) + PYTORCH_EPS) ** 0.5
    explained = _explains(factor, var, base_var, tolerance * (base_var + PYTORCH_EPS))
    explained = explained and _explains(of_means, mean, base_mean, tolerance * (abs(base_mean) + deviation))
    # Means that are small beside their deviations fit any factor; the less so, the closer the fit is.
    telling = int((abs(base_mean) > tolerance * deviation).sum())
    return explained and telling >= _FEWEST_CHANNELS


def _fitted(values: Array, reference: Array) -> float | None:
    """The factor between them, least squares; None: it is not finite or not positive."""
    square = float((reference**2).sum())
    factor = float((values * reference).sum()) / square if square > 0.0 else 0.0
    return factor if 0.0 < factor < math.inf else None


def _explains(factor: float, values: Array, reference: Array, allowed: Array) -> bool:
    """Whether every channel is `factor` times the reference, to what is allowed in the reference's unit."""
    return bool((abs(values - factor * reference) <= factor * allowed).all())


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
