"""Solves the epsilon that a folded convolution was made with.

gain = gamma ÷ √(var + eps), so eps = (gamma ÷ gain)² − var in every channel. A relative error d of the gain moves it
by 2 · d · (var + eps): channels of small variance tell it best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.folding.measuring import Weighed
from bnaudit.folding.norm_state import NormState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

KNOWN = (0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Values that code uses."""
_ROUNDINGS = 2.0
"""Of the gain, typically: that of 1 ÷ √ and that of the product."""
_LARGEST = 0.1
_FEWEST = 4
"""Channels that have to agree on an epsilon that no code is known to use."""


class Solved(NamedTuple):
    """An epsilon and its error."""

    eps: float
    """The known value where only one is as near as the error; else as solved."""
    solved: float
    error: float
    fitting: tuple[float, ...]
    """The known values within three errors."""

    @property
    def words(self) -> str:
        """`0.001 ± 2e-09`"""
        number = f"{self.solved:.4g} ± {self.error:.0e}"
        if not self.fitting:
            return number
        if len(self.fitting) == 1:
            return f"{self.fitting[0]:g} ± {self.error:.0e}"
        return f"{number} (cannot tell between {', '.join(f'{each:g}' for each in self.fitting)})"


def solve(weighed: Weighed, norm: NormState, *, with_gamma: bool = True) -> Solved | None:
    """The epsilon of the measured gains; None when none can be solved, or nothing but a common factor can be seen."""
    import numpy as np

    gamma = norm.gamma if with_gamma else np.ones_like(norm.gamma)
    telling = (weighed.size > 0) & (weighed.folded_size > 0) & (gamma * weighed.gain > 0)
    if not telling.any():
        return None
    with np.errstate(all="ignore"):
        total = (gamma[telling] / weighed.gain[telling]) ** 2
    errors = 2.0 * _ROUNDINGS * weighed.rounding.unit * total
    sound = np.isfinite(total) & (errors > 0)
    if not sound.any():
        return None
    total, errors, var = total[sound], errors[sound], norm.var[telling][sound]
    weights = (errors.min() / errors) ** 2
    eps, error = float(((total - var) * weights).sum() / weights.sum()), float(errors.min())
    fitting = tuple(known for known in KNOWN if abs(known - eps) <= 3.0 * error)
    vague = len(total) < _FEWEST or float(np.ptp(var)) <= 8.0 * error
    if eps < -3.0 * error or eps > _LARGEST or (vague and not fitting):
        return None
    return Solved(_chosen(eps, fitting, norm.eps), eps, error, fitting)


def _chosen(eps: float, fitting: tuple[float, ...], stated: float | None) -> float:
    """The stated epsilon where it is among those that fit, else the one that fits alone."""
    if stated in fitting:
        return float(stated or 0.0)
    return fitting[0] if len(fitting) == 1 else max(eps, 0.0)
