"""Draws that are made anew for every input, or every batch: companions, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALLEST = 1e-12
_MOST_CORRELATED = 64
"""Columns whose covariance is estimated; of more, only the variances."""
_MOST_DEVIATIONS = 3.0
"""Standard deviations of the draws' own values within which a statistic is one of a draw."""


class Likeness(NamedTuple):
    """What was compared."""

    inside: float
    """Share of the observed values within the draws' range, value by value."""
    expected: float
    """The same of a draw among the others, on average."""
    distance: float
    """Mean logarithm of the squared distance from the draws' centre, in the draws' own covariance, less that of a
    draw: 0 where the observed scores are as far away as draws are."""
    worst: float
    """The largest deviation of a statistic from those of the draws, in their standard deviations."""
    misfit: str
    """The statistic that deviates so, in words."""

    @property
    def fits(self) -> bool:
        """Whether nothing tells the observed scores from a draw."""
        return self.worst <= _MOST_DEVIATIONS


def likeness(observed: NDArray[np.float64], draws: NDArray[np.float64], as_saved: NDArray[np.float64]) -> Likeness:
    """observed, as_saved: (observations, columns), NaN not logged. draws: (draws, observations, columns), 3 or more."""
    import numpy as np

    known = np.isfinite(observed)
    seen = np.where(known, observed, 0.0)
    drawn = np.where(known, draws, 0.0)
    saved = np.where(known, as_saved, 0.0)
    centred = drawn - drawn.mean(axis=0)
    spread = np.maximum(np.sqrt((centred**2).mean(axis=(0, 2))), _SMALLEST)
    whiten = _whitening(centred / spread[:, None])
    own = np.array([*_statistics(seen, drawn, saved, whiten), _inside(seen, drawn, known)])
    others = []
    for i in range(len(drawn)):
        rest = np.delete(drawn, i, axis=0)
        others.append([*_statistics(drawn[i], rest, saved, whiten), _inside(drawn[i], rest, known)])
    table = np.array(others)
    usual = np.maximum(table.std(axis=0, ddof=1), 1e-9)
    deviations = (own - table.mean(axis=0)) / usual
    deviations[-1] = min(deviations[-1], 0.0)  # more inside than draws are is no misfit by itself
    worst = int(np.argmax(np.abs(deviations)))
    misfit = f"{_NAMES[worst]} is {abs(deviations[worst]):.1f} standard deviations from that of a draw"
    return Likeness(
        inside=float(own[-1]),
        expected=float(table[:, -1].mean()),
        distance=float(own[0] - table[:, 0].mean()),
        worst=float(abs(deviations[worst])),
        misfit=misfit,
    )


_NAMES = (
    "the distance from the draws' centre",
    "how unevenly the distance is spread over inputs",
    "the direction of the distance",
    "the share of the draws' mean shift",
    "the share of scores within the draws",
)


def _statistics(
    values: NDArray[np.float64],
    draws: NDArray[np.float64],
    saved: NDArray[np.float64],
    whiten: NDArray[np.float64],
) -> tuple[float, float, float, float]:
    """Of one set of scores among draws that it is not part of."""
    import numpy as np

    count = len(draws)
    centre = draws.mean(axis=0)
    spread = np.maximum(np.sqrt(((draws - centre) ** 2).sum(axis=(0, 2)) / (count - 1) / draws.shape[2]), _SMALLEST)
    away = (values - centre) / spread[:, None] / np.sqrt(1 + 1 / count)
    plain = np.log((away**2).mean(axis=1) + _SMALLEST)
    shaped = np.log(((away @ whiten) ** 2).mean(axis=1) + _SMALLEST)
    shift = centre - saved
    size = float((shift**2).sum())
    noise = float(((draws - centre) ** 2).sum() / (count - 1) / count)
    along = float(((values - saved) * shift).sum()) / size if size > 4 * noise else 1.0
    return float(shaped.mean()), float(shaped.std()), float((shaped - plain).mean()), along


def _whitening(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """(columns, columns): makes the draws' deviations, of all inputs together, of unit variance in every direction."""
    import numpy as np

    flat = scaled.reshape(-1, scaled.shape[2])
    variances = np.maximum((flat**2).mean(axis=0), _SMALLEST)
    columns = flat.shape[1]
    if columns > _MOST_CORRELATED or len(flat) < 4 * columns:
        return np.asarray(np.diag(1 / np.sqrt(variances)))
    covariance = flat.T @ flat / len(flat)
    values, vectors = np.linalg.eigh(covariance)
    least = 1e-4 * float(values.max())
    return np.asarray(vectors / np.sqrt(np.maximum(values, least)))


def _inside(values: NDArray[np.float64], draws: NDArray[np.float64], known: NDArray[np.bool_]) -> float:
    import numpy as np

    within = (values >= draws.min(axis=0)) & (values <= draws.max(axis=0))
    return float(np.mean(within[known])) if known.any() else 0.0
