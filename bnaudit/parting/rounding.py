"""Rounding, measured: one of the two once more in another precision.

How much rounding grows with depth depends on the model. 64 epsilons of the outputs' scale are enough for nearly all
in float32; in float16 they are 6 % and in bfloat16 half of it, which would hide real differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bnaudit.description import Carrier
from bnaudit.measuring import Chosen, opened
from bnaudit.parting.inputs import Inputs, open_inputs
from bnaudit.parting.norm_pairs import CallPair
from bnaudit.parting.output_pairs import row_differences
from bnaudit.parting.side import Ran, Seen, run_side
from bnaudit.progress import Progress, Silent
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError, RunError
from bnaudit.shifts import BAND, epsilon
from bnaudit.variation import Variation

ROWS = 16
"""Samples on which it is measured, the first ones: those whose moments were kept."""
_TIMES = 8.0
"""How many times the largest rounding that was seen counts as rounding: two models round, each in its own order."""
LEAST = 4.0
"""Epsilons of the outputs' scale that are rounding in any case, in half precision."""
HALVES = ("float16", "bfloat16")


class Measurable(NamedTuple):
    """One side as rounding can be measured on it."""

    name: str
    """`baseline`, `subject`"""
    chosen: Chosen
    ran: Ran


class Rounding(NamedTuple):
    """What one side's own rounding moves."""

    side: Measurable
    own: Ran
    """That side as it is on the first rows alone: among other neighbours they may get other outputs."""
    form: Ran
    """That side in the other precision, on the first rows."""
    how: str
    """`float64`, `float16`"""

    def of(self, pair: CallPair) -> tuple[Seen, Seen] | None:
        """The call in that side and in its other form; None where that did not run it."""
        index = (pair.baseline if self.side.name == "baseline" else pair.subject).seen.call.index
        one, other = (next((seen for seen in ran.norms if seen.call.index == index), None) for ran in self._both)
        return None if one is None or other is None else (one, other)

    @property
    def _both(self) -> tuple[Ran, Ran]:
        return self.own, self.form

    def floor(self, index: int, dtype: str, scale: float) -> float:
        """Of the side's output at this place, in its unit; dtype: the coarser of the two models'."""
        assumed = BAND * epsilon(dtype) * scale
        if not all(index < len(ran.outputs) and ran.with_rows[index] for ran in self._both):
            return assumed
        count = len(self.form.outputs[index].values)
        apart = row_differences(self.own.outputs[index].values[:count], self.form.outputs[index].values)
        if apart is None or not apart.size or not np.isfinite(apart).all():
            return assumed
        measured = _TIMES * float(apart.max())
        return max(measured, LEAST * epsilon(dtype) * scale if dtype in HALVES else assumed)


def best_side(sides: Sequence[Measurable], dtype: str) -> Measurable:
    """The one on which it is measured: the one that can be put into the coarser precision, else one whose float64 form
    is as fast as it is itself, else the first."""
    if dtype in HALVES:
        wide = [side for side in sides if side.ran.dtype not in HALVES]
        if wide:
            return wide[0]
    quick = [side for side in sides if side.ran.carrier is not Carrier.GRAPH]
    return (quick or list(sides))[0]


def measured(
    side: Measurable, dtype: str, inputs: Inputs | None, options: RunOptions, progress: Progress
) -> tuple[Rounding | None, str]:
    """The side in float64, or in the half precision that the other one computes in; None and why it cannot be.

    inputs: made ones, to be given again; None: those of the options.
    """
    half = dtype if dtype in HALVES and side.ran.dtype not in HALVES else ""
    name = f"the {side.name} in {half or 'float64'}"
    try:
        with opened(side.chosen) as session:
            given = inputs or open_inputs(session, options)
            few = given._replace(pool=given.pool.take(range(min(ROWS, side.ran.samples))))
            own = side.ran
            if own.samples > ROWS or own.carrier is Carrier.GRAPH:  # whose sizes tell what float64 would cost
                own = run_side(session, few, options, Silent(), "", ROWS, twice=False)
            with session.varied(Variation(dtype=half)) if half else session.double() as form:
                ran = run_side(form, few, options, progress, name, ROWS, twice=False)
    except (NotPossibleError, RunError) as error:
        return None, f"rounding was not measured: {error.what}"
    return Rounding(side, own, ran, half or "float64"), ""
