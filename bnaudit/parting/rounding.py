"""Rounding, measured: the baseline once more in another precision, on the inputs on which the two differ.

How much rounding grows with depth depends on the model. 64 epsilons of the outputs' scale are enough for nearly all
in float32; in float16 they are 6 % and in bfloat16 half of it, which would hide real differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bnaudit.measuring import Chosen, opened
from bnaudit.parting.inputs import Inputs, open_inputs
from bnaudit.parting.output_pairs import row_differences
from bnaudit.parting.side import Ran, Seen, run_side
from bnaudit.progress import Progress
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError, RunError, Session
from bnaudit.shifts import BAND, epsilon
from bnaudit.variation import Variation

ROWS = 32
"""Samples on which it is measured, the first ones: those whose moments were kept."""
_TIMES = 8.0
"""How many times the largest rounding that was seen counts as rounding: two models round, each in its own order."""
LEAST = 4.0
"""Epsilons of the outputs' scale that are rounding in any case, in half precision."""
_HALVES = ("float16", "bfloat16")


class Rounding(NamedTuple):
    """What the baseline's own rounding moves."""

    form: Ran
    """The baseline in the other precision, on the first rows."""
    how: str
    """`float64`, `float16`"""

    @property
    def norms(self) -> dict[int, Seen]:
        """Its norm calls by index."""
        return {seen.call.index: seen for seen in self.form.norms}

    def floor(self, baseline: Ran, index: int, dtype: str, scale: float) -> float:
        """Of one output of the baseline, in its unit; dtype: the coarser of the two models'."""
        assumed = BAND * epsilon(dtype) * scale
        if index >= len(self.form.outputs) or not (baseline.with_rows[index] and self.form.with_rows[index]):
            return assumed
        count = len(self.form.outputs[index].values)
        apart = row_differences(baseline.outputs[index].values[:count], self.form.outputs[index].values)
        if apart is None or not apart.size or apart.max() == float("inf"):
            return assumed
        measured = _TIMES * float(apart.max())
        if dtype in _HALVES:
            return max(measured, LEAST * epsilon(dtype) * scale)
        return max(measured, assumed)


def measured(
    chosen: Chosen, inputs: Inputs | None, baseline: Ran, dtype: str, options: RunOptions, progress: Progress
) -> tuple[Rounding | None, str]:
    """The baseline in float64, or in the half precision that the other side computes in; None and why it cannot be.

    inputs: made ones, to be given again; None: those of the options.
    """
    rows = min(ROWS, baseline.samples)
    half = dtype in _HALVES and baseline.dtype != dtype
    try:
        with opened(chosen) as session, _form(session, dtype if half else "") as form:
            given = inputs or open_inputs(session, options)
            name = f"the baseline in {dtype if half else 'float64'}"
            ran = run_side(form, given, options, progress, name, rows, twice=False)
    except (NotPossibleError, RunError) as error:
        return None, f"rounding was not measured: {error.what}"
    return Rounding(ran, dtype if half else "float64"), ""


@contextmanager
def _form(session: Session, half: str) -> Iterator[Session]:
    entering = session.varied(Variation(dtype=half)) if half else session.double()
    with entering as form:
        yield form
