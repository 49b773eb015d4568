"""Whether gains and shifts are those of the same gamma and beta with another mean and variance.

gain' = gamma ÷ √(var' + eps) and shift' = beta − mean' · gain' can be solved for any gain' and shift', so a fit alone
shows nothing. It is concluded when both moved in nearly every channel, by different factors, no further than training
moves them, and the convolution itself is the same to rounding, so that gamma and beta are most likely, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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


def other_statistics(weighed: Weighed, norm: NormState, eps: float) -> tuple[FoldCause, str]:
    """The cause, OLDER_STATISTICS or UNKNOWN, and what can be said."""
    import numpy as np

    differs = f"the gains are off by up to {_off(weighed, norm, eps):.2g} times what they should be"
    telling = weighed.live & (norm.gamma != 0)
    if weighed.mixing is not None or telling.sum() < _FEWEST or not _untouched(weighed, norm):
        return FoldCause.UNKNOWN, f"{differs} and fit no known cause"
    gain, gamma = weighed.gain[telling], norm.gamma[telling]
    if not (gain * gamma > 0).all():
        return FoldCause.UNKNOWN, f"{differs}, some with the other sign, and fit no known cause"
    var = (gamma / gain) ** 2 - eps
    shift = weighed.folded_bias[telling] - weighed.bias[telling] * gain
    mean = (norm.beta[telling] - shift) / gain
    if not (var > 0).all() or not (norm.var[telling] > 0).all():
        return FoldCause.UNKNOWN, f"{differs} and fit no known cause"
    limit = weighed.rounding.limit
    ratio = np.log(var / norm.var[telling])
    size = (
        abs(mean) + abs(norm.mean[telling]) + (abs(weighed.folded_bias[telling]) + abs(norm.beta[telling])) / abs(gain)
    )
    still = abs(mean - norm.mean[telling]) <= 4.0 * limit * size
    unmoved = abs(ratio) <= 4.0 * limit * (1.0 + eps / norm.var[telling])
    if still.mean() > 0.5:
        return FoldCause.UNKNOWN, f"{differs}; the shifts follow them with the same mean: another gamma or variance"
    if float(ratio.std()) < _ONE_FACTOR:
        factor = float(np.median(gain / (gamma / np.sqrt(norm.var[telling] + eps))))
        return FoldCause.UNKNOWN, f"all gains are {factor:.4g} times what they should be"
    sigma = np.sqrt(norm.var[telling] + eps)
    moved = float(np.sqrt((((mean - norm.mean[telling]) / sigma) ** 2).mean()))
    median = float(np.median(abs(ratio)))
    both = float((~still & ~unmoved).mean())
    if both < _MOST or median > _LARGEST_RATIO or moved > _LARGEST_SHIFT:
        return FoldCause.UNKNOWN, f"{differs} and fit no known cause"
    words = (
        f"gamma and beta fit with statistics of another time: means {moved:.2g} standard deviations away, "
        f"variances {math.exp(median):.3g} × (median)"
    )
    return FoldCause.OLDER_STATISTICS, words


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
