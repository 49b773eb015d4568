"""Whether numbers went through float16 or bfloat16 on the way, though they are stored in a wider type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.folding.measuring import Weighed, rows_of
from bnaudit.folding.norm_state import NormState
from bnaudit.folding.rounding import HALVES, Rounding
from bnaudit.reading.onnx.dtypes import round_to_bfloat16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def rounded(values: Array, half: Rounding) -> Array:
    """The values rounded to the nearest float16 or bfloat16, ties to even."""
    import numpy as np

    with np.errstate(all="ignore"):
        if half.dtype == "float16":
            return values.astype(np.float16).astype(np.float64)
        return round_to_bfloat16(values.astype(np.float32)).astype(np.float64)


def through_half(weighed: Weighed) -> Rounding | None:
    """The half precision that one of the two weights was rounded to; None: neither, or they are stored in one.

    Rounded after folding, or in the artifact that was folded from: all values lie on its grid. Rounded before folding
    by a tool that folds in float32: the folded rows are multiples of the rounded ones. Raises UnreadableError.
    """
    if weighed.rounding.unit >= HALVES[-1].unit:
        return None
    own, folded = rows_of(weighed)
    for half in HALVES:
        if _on_grid(folded, half) or _on_grid(own, half) or _multiples(rounded(own, half), folded, weighed.rounding):
            return half
    return None


def _on_grid(values: Array, half: Rounding) -> bool:
    """Whether all values are ones of this type, and too many for it to be chance."""
    return int((values != 0).sum()) >= 8 and bool((rounded(values, half) == values).all())


def _multiples(own: Array, folded: Array, rounding: Rounding) -> bool:
    import numpy as np

    square = (own * own).sum(axis=1)
    live = (square > 0) & folded.any(axis=1)
    if not live.any() or own.shape[1] < 2 or not np.isfinite(square).all():
        return False
    gain = (own * folded)[live].sum(axis=1) / square[live]
    stray = np.sqrt(((folded[live] - gain[:, None] * own[live]) ** 2).sum(axis=1))
    limit = rounding.slack * (rounding.unit * np.sqrt((folded[live] ** 2).sum(axis=1)) + rounding.floor)
    return bool((stray <= limit).all())


def half_norms(norm: NormState, eps: float) -> list[tuple[Rounding, NormState, Array]]:
    """The norm with its tensors rounded to each half precision, and the gains of that."""
    found = []
    for half in HALVES:
        mean, var, gamma, beta = (rounded(values, half) for values in (norm.mean, norm.var, norm.gamma, norm.beta))
        coarse = norm._replace(mean=mean, var=var, gamma=gamma, beta=beta)
        found.append((half, coarse, coarse.affine(eps).gain))
    return found
