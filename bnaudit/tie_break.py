"""Whether a small difference is kernel noise: noise shrinks with the epsilon of the arithmetic, a leak does not.

Mixtures of experts and packed sequences differ by 2e-7 in float32 and 2e-16 in float64; a leak keeps its size.
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.experiment import Experiment
from bnaudit.measurement import Shift
from bnaudit.session import Batch, NotPossibleError, RunError
from bnaudit.shifts import Band, Pairs, band, shift

_SAME_SIZE = 0.1
"""Share of the first difference that is left in float64 when it is a leak."""
_SHRUNK = 1e-3
"""Share that is left of noise at most: the epsilons' ratio is 2e-9 from float32, 2e-13 from float16."""


class Double(NamedTuple):
    """The same difference in float64."""

    shift: Shift | None
    why: str = ""
    """Why there is none."""


def in_double(experiment: Experiment, first: Batch, second: Batch, pairs: Pairs) -> Double:
    """Two further forwards in float64, and how far their rows are apart."""
    if experiment.extras_left < 2:
        return Double(None, "all further forwards were used")
    try:
        with experiment.session.double() as double:
            one, other = (
                experiment.extra("in float64", batch, session=double, seed=experiment.seed) for batch in (first, second)
            )
            return Double(shift(one, other, experiment.axes, pairs))
    except (NotPossibleError, RunError) as error:
        return Double(None, str(error))


def persists(single: Shift, double: Shift | None) -> bool | None:
    """Whether a difference is still there in float64; None: it cannot be told."""
    if double is None:
        return None
    if double.exact:
        return False
    if double.dtype != "float64":
        return None
    left = _share(double) / _share(single)
    if band(double) is not Band.LEAK or left <= _SHRUNK:
        return False
    return True if left >= _SAME_SIZE else None


def _share(found: Shift) -> float:
    return found.difference / found.scale if found.scale > 0 else found.difference
