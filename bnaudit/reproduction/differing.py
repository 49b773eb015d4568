"""Whether two forwards differ by more than rounding can make, with a margin so that another machine sees it too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bnaudit.feeds.pools import Pool
from bnaudit.measurement import Shift
from bnaudit.session import Session, Trace
from bnaudit.shifts import BAND, Axes, epsilon, row_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MARGIN, _COARSE_MARGIN = 4.0, 1.25
"""Times the limit of noise beyond which a difference is shown: kernels of other machines round otherwise. In half
precision the limit itself is a large part of the scale."""
_COARSE = 1e-4
"""Epsilons from which a dtype is half precision or less."""
SHARE = 0.1
"""Share of the first difference that has to be left while the case becomes smaller."""


def shows(shift: Shift, least: float = 0.0) -> bool:
    """Whether it is a difference that can be shown, and at least so many epsilons."""
    return not shift.exact and shift.epsilons > max(least, safely(shift.dtype))


def safely(dtype: str) -> float:
    """Epsilons beyond which a difference in this dtype is no noise on any machine."""
    return BAND * (_COARSE_MARGIN if epsilon(dtype) > _COARSE else _MARGIN)


def still_shows(shift: Shift, first: Shift) -> bool:
    """Whether a smaller case shows what the first one did: enough of it, and no infinity or NaN that was not there."""
    return shows(shift, least_of(first)) and (math.isfinite(shift.difference) or not math.isfinite(first.difference))


def least_of(shift: Shift) -> float:
    """Epsilons that have to be left of a difference."""
    return min(SHARE * shift.epsilons, 1e6)


def limit_of(shift: Shift) -> float:
    """What rounding can make, in the output's unit: 64 epsilons of its scale."""
    return BAND * epsilon(shift.dtype) * shift.scale if shift.scale > 0 else 0.0


def axes_of(session: Session, pool: Pool, trace: Trace, size: int, other: Trace | None, other_size: int) -> Axes:
    """The batch axes of the outputs, confirmed by a run of another size where there is one."""
    batch = pool.take([0] * size).batch()
    return row_axes(trace, batch, other, other_size)


def place_of(trace: Trace, name: str) -> int:
    """Which of the outputs has this name."""
    return next((at for at, output in enumerate(trace.outputs) if output.name == name), 0)


def row_values(trace: Trace, at: int, axis: int | None, row: int) -> NDArray[np.generic]:
    """The values of one row of an output, or all of it."""
    values = trace.outputs[at].values
    return values if axis is None else np.asarray(values.take(row, axis=axis))
