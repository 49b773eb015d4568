"""Whether gains and shifts are those of the same gamma and beta with another mean and variance.

gain' = gamma ÷ √(var' + eps) and shift' = beta − mean' · gain' can be solved for any gain' and shift', so a fit alone
shows nothing. It is concluded when both moved in nearly every channel, by different factors, no further than training
moves them, and the convolution itself is the same to rounding, so that gamma and beta are most likely, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.comparison import FoldCause
from bnaudit.folding.measuring import Weighed
from bnaudit.folding.norm_state import NormState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_FEWEST = 4
_MOST = 0.9
"""Share of the channels in which mean and variance have to have moved."""
_LARGEST_RATIO = math.log(4.0)
"""Median over channels."""
_LARGEST_SHIFT = 2.0
"""Root mean square, in standard deviations."""
_ONE_FACTOR = 1e-3
"""Variance ratios that spread less are one factor, which no training makes."""


class _Change(NamedTuple):
    """From the norm's statistics to those that the gains and shifts ask for, of the channels that tell them."""

    ratio: Array
    """Logarithm of the variances' ratio."""
    sigmas: Array
    """How far the mean moved, in standard deviations."""
    same_mean: NDArray[np.bool_]
    """To rounding."""
    same_var: NDArray[np.bool_]

    @property
    def median(self) -> float:
        """Of the size of the ratio."""
        import numpy as np

        return float(np.median(abs(self.ratio)))

    @property
    def shift(self) -> float:
        """Root mean square of what the means moved."""
        return float((self.sigmas**2).mean() ** 0.5)

    @property
    def is_trainings(self) -> bool:
        """Whether both moved in nearly every channel, and no further than training moves them."""
        both = float((~self.same_mean & ~self.same_var).mean())
        return both >= _MOST and self.median <= _LARGEST_RATIO and self.shift <= _LARGEST_SHIFT


def other_statistics(weighed: Weighed, norm: NormState, eps: float) -> tuple[FoldCause, str]:
    """The cause, OLDER_STATISTICS or UNKNOWN, and what can be said."""
    import numpy as np

    differs = f"the gains are off by up to {_off(weighed, norm, eps):.2g} times what they should be"
    telling = weighed.live & (norm.gamma != 0)
    if weighed.mixing is not None or telling.sum() < _FEWEST or not _untouched(weighed, norm):
        return FoldCause.UNKNOWN, f"{differs} and fit no known cause"
    if not (weighed.gain * norm.gamma > 0)[telling].all():
        return FoldCause.UNKNOWN, f"{differs}, some with the other sign, and fit no known cause"
    change = _change(weighed, norm, eps, telling)
    if change is not None and change.same_mean.mean() > 0.5:
        return FoldCause.UNKNOWN, f"{differs}; the shifts follow them with the same mean: another gamma or variance"
    if change is not None and float(change.ratio.std()) < _ONE_FACTOR:
        factor = float(np.median(weighed.gain[telling] / norm.affine(eps).gain[telling]))
        return FoldCause.UNKNOWN, f"all gains are {factor:.4g} times what they should be"
    if change is None or not change.is_trainings:
        return FoldCause.UNKNOWN, f"{differs} and fit no known cause"
    words = (
        f"gamma and beta fit with statistics of another time: means {change.shift:.2g} standard deviations away, "
        f"variances {math.exp(change.median):.3g} × (median)"
    )
    return FoldCause.OLDER_STATISTICS, words


def _change(weighed: Weighed, norm: NormState, eps: float, telling: NDArray[np.bool_]) -> _Change | None:
    """Solved for in the telling channels; None where a variance would not be positive."""
    import numpy as np

    gain, folded_bias = weighed.gain[telling], weighed.folded_bias[telling]
    old_mean, old_var, beta = norm.mean[telling], norm.var[telling], norm.beta[telling]
    var = (norm.gamma[telling] / gain) ** 2 - eps
    if not (var > 0).all() or not (old_var > 0).all():
        return None
    mean = (beta - (folded_bias - weighed.bias[telling] * gain)) / gain
    ratio = np.log(var / old_var)
    limit = 4.0 * weighed.rounding.limit
    size = abs(mean) + abs(old_mean) + (abs(folded_bias) + abs(beta)) / abs(gain)
    return _Change(
        ratio=ratio,
        sigmas=(mean - old_mean) / np.sqrt(old_var + eps),
        same_mean=abs(mean - old_mean) <= limit * size,
        same_var=abs(ratio) <= limit * (1.0 + eps / old_var),
    )


def _untouched(weighed: Weighed, norm: NormState) -> bool:
    """Where gamma is 0 statistics have no effect: gain 0 and shift beta have to stand there still."""
    import numpy as np

    still = norm.gamma == 0
    rounding = weighed.rounding
    off = abs(weighed.folded_bias - norm.beta)[still]
    fits = off <= rounding.limit * abs(norm.beta[still]) + rounding.floor
    return not np.any(weighed.folded_size[still] > rounding.floor) and bool(fits.all())


def _off(weighed: Weighed, norm: NormState, eps: float) -> float:
    import numpy as np

    gain = norm.affine(eps).gain
    live = weighed.live & (gain != 0)
    return float(abs(weighed.gain[live] / gain[live] - 1.0).max()) if np.any(live) else 0.0
