"""The model in the mode that it was saved in, where that is not what eval() gives."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.experiment import Experiment
from bnaudit.measurement import AsSaved, Measurement
from bnaudit.probes import Probe
from bnaudit.shifts import whole_shift


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One AsSaved, where the saved mode is another one."""
    saved = experiment.as_saved
    if saved is not None:
        yield AsSaved(shift=whole_shift(experiment.base, saved), random=bool(saved.random_calls))


PROBE = Probe(name="as_saved", measure=measure)
