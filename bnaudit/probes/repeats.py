"""The same batch again: in a row, restored, after other companions, and equal rows within it (BN302, BN305, BN306)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.experiment import Experiment
from bnaudit.measurement import IdenticalRows, Measurement, Repeat
from bnaudit.probes import Probe
from bnaudit.shifts import Band, band, shift
from bnaudit.swap import swap_decision
from bnaudit.tie_break import in_double


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One Repeat; one IdenticalRows where a row has a copy."""
    yield Repeat(
        in_a_row=experiment.in_a_row,
        restored=experiment.restored,
        random=experiment.base.random_calls,
        changes=experiment.base.changes,
        after_others=experiment.after_others,
    )
    if experiment.feed.copy is not None and not experiment.random:
        yield from _identical_rows(experiment, experiment.feed.copy)


def _identical_rows(experiment: Experiment, copy: tuple[int, int]) -> Iterator[Measurement]:
    """Rows that differ because samples mix are the leak's, and not told again."""
    base = experiment.base
    found = shift(base, base, experiment.axes, (copy,))
    if band(found) is not Band.LEAK:
        yield IdenticalRows(shift=found)
    elif not experiment.once(swap_decision).swap.leaks:
        batch = experiment.feed.base
        yield IdenticalRows(shift=found, double=in_double(experiment, batch, batch, (copy,)).shift)


PROBE = Probe(name="repeats", measure=measure)
