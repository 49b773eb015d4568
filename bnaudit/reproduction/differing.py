"""Whether two forwards differ by more than rounding can make, with a margin so that another machine sees it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bnaudit.feeds.pools import Pool
from bnaudit.measurement import Shift
from bnaudit.session import Session, Trace
from bnaudit.shifts import BAND, Axes, row_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAFELY = 4 * BAND
"""Epsilons beyond which a difference is shown; kernels of other machines round otherwise."""
SHARE = 0.1
"""Share of the first difference that has to be left while the case becomes smaller."""


def shows(shift: Shift, least: float = SAFELY) -> bool:
    """Whether it is a difference that can be shown."""
    return not shift.exact and shift.epsilons > least


def least_of(shift: Shift) -> float:
    """Epsilons that have to be left of a difference."""
    return max(SAFELY, min(SHARE * shift.epsilons, 1e6))


def limit_of(shift: Shift) -> float:
    """What rounding can make, in the output's unit: 64 epsilons of its scale."""
    from bnaudit.shifts import epsilon

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
