"""Folds that fit once channels stand in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.folding.gains import misfit
from bnaudit.folding.measuring import Weighed, rows_of
from bnaudit.folding.norm_state import NormState
from bnaudit.folding.permutation import order, row_order
from bnaudit.folding.shifts import shift_misfit, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def reordered_gains(weighed: Weighed, norm: NormState, gain: Array) -> str:
    """The sentence when the layer is in place and the norm's channels are in another order; "" when it is not so."""
    import numpy as np

    if weighed.mixing is not None or not weighed.live.any():
        return ""
    limit = 2.0 * weighed.rounding.limit
    shift = weighed.folded_bias - weighed.bias * weighed.gain
    plain = norm.beta - norm.mean * gain
    size = abs(weighed.bias * weighed.gain) + abs(weighed.folded_bias) + np.max(abs(norm.mean * gain) + abs(norm.beta))
    near = np.stack([limit * abs(gain), limit * np.full_like(gain, size.max())], axis=1)
    found = order(np.stack([gain, plain], axis=1), np.stack([weighed.gain, shift], axis=1), near + 1e-300)
    if found is None:
        return ""
    moved = int((found != np.arange(len(found))).sum())
    return f"the norm's channels were folded in another order, {moved} of {len(found)} in the place of others"


def reordered_rows(weighed: Weighed, norm: NormState, gain: Array) -> str:
    """The sentence when the layer's own channels are in another order, with or without the norm's; else "".

    Raises UnreadableError.
    """
    import numpy as np

    own, folded = rows_of(weighed)
    found = row_order(own, folded)
    if found is None:
        return ""
    moved = f"{int((found != np.arange(len(found))).sum())} of {len(found)}"
    measured = (own[found] * folded).sum(axis=1) / np.maximum((own[found] ** 2).sum(axis=1), 1e-300)
    moved_rows = weighed._replace(gain=measured, size=weighed.size[found], bias=weighed.bias)
    if weighed.mixing is None:
        moved_rows = moved_rows._replace(bias=weighed.bias[found])
    together, alone = misfit(moved_rows, gain[found]).max(), misfit(moved_rows, gain).max()
    if together <= 1.0 and _shifts_fit(moved_rows, norm, gain, found):
        return f"all channels are in another order, {moved} in the place of others"
    if alone <= 1.0:
        return f"the layer's channels are in another order, {moved} in the place of others, the norm's are not"
    return f"the layer's channels are in another order, {moved} in the place of others; the gains differ as well"


def _shifts_fit(weighed: Weighed, norm: NormState, gain: Array, found: NDArray[np.intp]) -> bool:
    if weighed.mixing is not None:
        return True
    moved = norm._replace(mean=norm.mean[found], beta=norm.beta[found])
    expected = terms(weighed, moved, gain[found])
    return bool(shift_misfit(weighed, expected.exact, expected.size).max() <= 1.0)
