"""Whether channels stand in another order: rows of weights, or the gains and shifts that were multiplied in."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_PROBES = 8
_MOST = 4096
"""Channels; every one is compared with every other."""
_NEAR = 1e-3


def row_order(weight: Array, folded: Array) -> NDArray[np.intp] | None:
    """The order p with folded[i] ∥ weight[p[i]] for every row i, whatever the lengths and signs of the rows.

    None when there is no such order, it is the identity, or rows are too alike to tell. Rows are compared by their
    products with a few fixed vectors.
    """
    if not 1 < len(weight) <= _MOST or weight.shape[1] < 2:
        return None
    return order(row_signatures(weight), row_signatures(folded), _NEAR)


def row_signatures(rows: Array) -> Array:
    """Products of the rows' directions with fixed vectors, without sign: the same whatever gain each row has."""
    import numpy as np

    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    with np.errstate(all="ignore"):
        found: Array = abs(rows @ _probes(rows.shape[1])) / np.where(lengths > 0, lengths, 1.0)[:, None]
    return found


@lru_cache(maxsize=8)
def _probes(length: int) -> Array:
    """Vectors to multiply rows of this length with, (length, 8)."""
    import numpy as np

    return np.random.default_rng(20).standard_normal((length, _PROBES))


def order(points: Array, moved: Array, near: Array | float) -> NDArray[np.intp] | None:
    """The order p with moved[i] within `near` of points[p[i]], when there is one, it is unique and not the identity.

    `points` and `moved` are (channels, coordinates). What is 0 throughout in `moved` has lost its place: such channels
    get the places that are left.
    """
    import numpy as np

    count = len(points)
    if not 1 < count <= _MOST:
        return None
    found = np.full(count, -1, np.intp)
    for place in np.flatnonzero(moved.any(axis=1)):
        inside = (abs(points - moved[place]) <= near).all(axis=1)
        if inside.sum() != 1:
            return None
        found[place] = int(inside.argmax())
    placed = found[found >= 0]
    if len(placed) < 2 or len(np.unique(placed)) < len(placed):
        return None
    if bool((found[found >= 0] == np.flatnonzero(found >= 0)).all()):
        return None
    found[found < 0] = np.setdiff1d(np.arange(count), placed)
    return found
