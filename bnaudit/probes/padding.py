"""Companions of another length, padded by the user's own collate (BN304)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.experiment import Experiment
from bnaudit.measurement import Measurement, Padding
from bnaudit.probes import Probe
from bnaudit.records import replace
from bnaudit.session import Output, Trace
from bnaudit.shifts import shift


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One Padding, where the inputs have a length that can be changed."""
    lengthened = experiment.feed.lengthened()
    if lengthened is None or experiment.random:
        return
    batch, axis, lengths = lengthened
    longer = experiment.planned("companions of another length", batch)
    base = experiment.deciding_base
    found = shift(base, _cut(longer, base), experiment.axes, experiment.anchor_pairs)
    yield Padding(shift=found, axis=axis, lengths=lengths)


def _cut(trace: Trace, like: Trace) -> Trace:
    """The outputs cut to the shape that they had without the longer companions: those of the padding are left out."""
    outputs = tuple(_cut_output(one, other) for one, other in zip(trace.outputs, like.outputs, strict=False))
    return replace(trace, outputs=outputs)


def _cut_output(one: Output, like: Output) -> Output:
    if one.values.ndim != like.values.ndim:
        return one
    return replace(one, values=one.values[tuple(slice(0, size) for size in like.values.shape)])


PROBE = Probe(name="padding", measure=measure)
