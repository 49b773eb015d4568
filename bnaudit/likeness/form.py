"""Scores in a form in which their differences can be compared from one input to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEAST = 1e-3
"""Probabilities below this count as this: there the logarithm is of rounding, or of what nobody looks at."""
_IN_FLOORS = 35.0


def comparable(scores: NDArray[np.float64], is_probabilities: bool, floor: float) -> NDArray[np.float64]:
    """Logarithms of probabilities, centred for every input; other scores as they are. (…, columns)

    floor: root mean square of the scores' own rounding, which the logarithms of small ones would blow up.
    """
    import numpy as np

    if not is_probabilities:
        return scores
    logarithms = np.log(np.maximum(scores, 0.0) + max(_LEAST, _IN_FLOORS * floor))
    if scores.shape[-1] == 1:
        return np.asarray(logarithms)
    return np.asarray(logarithms - np.nanmean(logarithms, axis=-1, keepdims=True))
