"""One file per probe. A plugin is a module with a `PROBE`:

    PROBE = Probe(name="neighbours", measure=measure)

`measure(experiment)` asks the experiment for the runs that it needs (each is made once, whoever asks first) and yields
Measurements and Answers. What stops it half-way (a budget, a model that raises) is raised and recorded by the
experiment's caller as Unmeasured, never swallowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bnaudit.experiment import Experiment
from bnaudit.measurement import Measurement
from bnaudit.plugins import load, names


class Probe(NamedTuple):
    """The contract of a probe plugin."""

    name: str
    """As rules name it in `needs`; the file's name."""
    measure: Callable[[Experiment], Iterator[Measurement]]


def probes() -> Iterator[Probe]:
    """All probes, by file name."""
    for name in names(__name__):
        plugin: Probe = load(__name__, name).PROBE
        yield plugin
