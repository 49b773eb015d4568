"""The framework's own optimizations against the plain computation (BN307)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier
from bnaudit.experiment import Experiment
from bnaudit.measurement import Measurement, Production
from bnaudit.probes import Probe
from bnaudit.shifts import whole_shift


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One Production, where production runs something else."""
    production = experiment.production
    if production is not None:
        graph = experiment.session.carrier is Carrier.GRAPH
        form = "onnxruntime's default optimizations" if graph else "torch.compile"
        yield Production(shift=whole_shift(experiment.deciding_base, production), form=form)


PROBE = Probe(name="production", measure=measure)
