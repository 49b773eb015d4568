"""Draws of one changed state, which all observations share: its effects lie in few directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEAST = 0.93
"""Share of the difference that the draws' directions must hold; below it the cause is another."""
_SLACK = 0.5
"""How much more of it may lie outside of them than of the worst draw's, relative to that."""
_INSIDE = 0.7
"""Share of the observed values that must lie between the model as saved and the draws' extremes."""
_ABOVE = 4.0
"""Times that the squared difference has to exceed that of the scores' own precision to have a direction."""
_VALUES_FOR_EACH = 8
"""Observed values for every direction: in as many directions as values, everything lies."""


class Direction(NamedTuple):
    """What was compared."""

    held: float
    """Share of the squared difference from the model as saved that lies in the directions of the draws' differences."""
    of_draws: float
    """Smallest share of a draw's in those of the others."""
    inside: float
    """Share of the observed values between the model as saved and the draws' extremes."""
    nearest: int
    """The draw that is nearest in size along the observed direction."""

    @property
    def fits(self) -> bool:
        """Whether the difference lies as much in the draws' directions as their own do, and goes no further."""
        return self.held >= max(self.of_draws - _SLACK * (1 - self.of_draws), _LEAST) and self.inside >= _INSIDE


def direction(
    observed: NDArray[np.float64], draws: NDArray[np.float64], as_saved: NDArray[np.float64], floor: float
) -> Direction:
    """observed, as_saved: (observations, columns), NaN not logged. draws: (draws, observations, columns).

    floor: root mean square of what the observed scores' precision leaves, which no direction holds.
    """
    import numpy as np

    known = np.isfinite(observed)
    apart = (observed - as_saved)[known]
    away = np.stack([(draw - as_saved)[known] for draw in draws])
    lengths = np.sqrt((away**2).sum(axis=1))
    away = away[lengths > 0]
    if not len(away) or not apart.size:
        return Direction(0.0, 1.0, 0.0, 0)
    base, coordinates = np.linalg.qr(away.T)  # all spans lie in as many dimensions as there are draws
    short = coordinates.T
    unit = short / lengths[lengths > 0][:, None]
    most = apart.size // _VALUES_FOR_EACH
    noise = floor**2 * apart.size
    own = _held(apart @ base, unit, most, float((apart**2).sum()), noise)
    shares = [
        _held(short[i], np.delete(unit, i, axis=0), most, float((short[i] ** 2).sum()), 0.0) for i in range(len(away))
    ]
    low = np.minimum(draws.min(axis=0), as_saved)[known]
    high = np.maximum(draws.max(axis=0), as_saved)[known]
    inside = float(np.mean((observed[known] >= low - floor) & (observed[known] <= high + floor)))
    nearest = int(np.argmin(((away - apart) ** 2).sum(axis=1)))
    return Direction(own, float(np.min(shares)), inside, int(np.flatnonzero(lengths > 0)[nearest]))


def _held(values: NDArray[np.float64], unit: NDArray[np.float64], most: int, total: float, noise: float) -> float:
    """Share of the squared length, `total`, that lies in the span of at most so many directions, noise left aside."""
    import numpy as np

    if not len(unit) or total <= _ABOVE * noise:
        return 0.0
    basis = np.linalg.svd(unit, full_matrices=False)[2][:most]
    rest = total - float(((basis @ values) ** 2).sum())
    return 1 - max(rest - 1.5 * noise, 0.0) / max(total - noise, 1e-300)
