"""The framework's own optimizations against the plain computation (BN307)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.description import Carrier
from bnaudit.experiment import Experiment
from bnaudit.measurement import Measurement, Production, Shift
from bnaudit.probes import Probe
from bnaudit.session import NotPossibleError, RunError
from bnaudit.shifts import Band, band, whole_shift


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One Production, where production runs something else."""
    production = experiment.production
    if production is not None:
        graph = experiment.session.carrier is Carrier.GRAPH
        form = "onnxruntime's default optimizations" if graph else "torch.compile"
        found = whole_shift(experiment.deciding_base, production)
        beyond = math.isfinite(found.difference) and band(found) is Band.LEAK
        yield Production(shift=found, form=form, rounding=_rounding(experiment) if beyond else None)


def _rounding(experiment: Experiment) -> Shift | None:
    """How far the plain computation is from the same in float64; None where that cannot be run."""
    if experiment.random or not experiment.extras_left:
        return None
    try:
        with experiment.session.double() as double:
            exact = experiment.extra("in float64", experiment.feed.base, session=double)
            return whole_shift(experiment.deciding_base, exact)
    except (NotPossibleError, RunError):
        return None


PROBE = Probe(name="production", measure=measure)
