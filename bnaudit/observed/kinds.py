"""What kind of scores numbers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.diagnosis import ScoreKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SUM_ERROR = 2e-3
"""How far the sum of half-precision probabilities may be from 1."""


def kind_of(
    values: NDArray[np.float64], named: ScoreKind | None, step: float | None, *, is_label: bool
) -> ScoreKind | None:
    """From the values: rows that sum to 1 are probabilities, one column of class numbers is labels.

    named: what the columns are called, which decides where the values leave it open. None: neither tells.
    """
    import numpy as np

    seen = values[np.isfinite(values)]
    if not seen.size:
        return named
    in_unit = bool(((seen >= 0) & (seen <= 1)).all())
    if values.shape[1] == 1:
        whole = bool((seen == np.round(seen)).all() and (seen >= 0).all())
        if is_label or (whole and named is None and seen.size > 1):
            return ScoreKind.LABELS
    elif in_unit and _sums_to_one(values, step):
        return ScoreKind.PROBABILITIES
    if named is ScoreKind.PROBABILITIES and not in_unit:
        return None
    return named


def _sums_to_one(values: NDArray[np.float64], step: float | None) -> bool:
    """Every complete row, to within what its rounding can add up to."""
    import numpy as np

    complete = values[np.isfinite(values).all(axis=1)]
    allowed = _SUM_ERROR + (step or 0.0) * values.shape[1] / 2
    return bool(len(complete) and (np.abs(complete.sum(axis=1) - 1) <= allowed).all())
