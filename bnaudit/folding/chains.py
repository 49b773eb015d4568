"""Two norms in a row, both folded into the layer before them."""

from __future__ import annotations

from collections.abc import Iterable

from bnaudit.description import NormLayer
from bnaudit.folding.causes import is_equal
from bnaudit.folding.measuring import Weighed
from bnaudit.folding.norm_state import NormState

_MOST = 64
"""Norms that are tried as the second of two."""


def second_norm(weighed: Weighed, first: NormState, others: Iterable[tuple[NormLayer, NormState]]) -> NormLayer | None:
    """The norm that, behind `first`, makes the layer the fold of both to rounding; None: none does."""
    for tried, (layer, second) in enumerate(others):
        if tried >= _MOST:
            return None
        if second.mean.shape == first.mean.shape and is_equal(weighed, _both(first, second)):
            return layer
    return None


def _both(first: NormState, second: NormState) -> NormState:
    """One norm that does what both do: gain g₁ · g₂, shift g₂ · s₁ + s₂."""
    import numpy as np

    with np.errstate(all="ignore"):
        one, two = (norm.affine(norm.usual_eps) for norm in (first, second))
        live = one.gain != 0
        mean = np.where(live, -one.shift / np.where(live, one.gain, 1.0), 0.0)
        beta = two.shift + np.where(live, 0.0, two.gain * one.shift)
    coarsest = max(first.rounding, second.rounding, key=lambda each: each.unit)
    return NormState(mean, np.ones_like(mean), one.gain * two.gain, beta, 0.0, coarsest)
