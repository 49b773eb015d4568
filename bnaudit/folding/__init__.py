"""Norm layers that one of two artifacts holds within its convolutions: which, into which, and whether rightly."""

from __future__ import annotations

from bnaudit.comparison import Folds, Matching
from bnaudit.folding.question import Side

__all__ = ["Side", "folds"]


def folds(subject: Side, baseline: Side, matching: Matching) -> Folds | None:
    """The norms that one side folded into its convolutions, each recomputed in float64 and compared.

    None: no side lacks norms that the other has, or nothing speaks for a fold; no weight is read unless one is in
    question. What could not be read or found stands in `remarks` and `unfound` and is never silent: a weight that
    cannot be read raises nothing.
    """
    from bnaudit.folding.question import suspected

    found = suspected(subject, baseline, matching)
    if found is None:
        return None
    from bnaudit.folding.recomputing import recomputed

    return recomputed(found, matching.renames)
