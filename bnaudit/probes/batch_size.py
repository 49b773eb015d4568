"""Whether a batch of one is treated apart from larger ones (BN303)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.experiment import Experiment
from bnaudit.measurement import BatchSize, Measurement, Shift
from bnaudit.probes import Probe
from bnaudit.records import replace
from bnaudit.session import RunError
from bnaudit.shifts import Band, band, shift
from bnaudit.swap import alone_shift, swap_decision
from bnaudit.tie_break import in_double, persists


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One BatchSize; none where the artifact fixes its batch, or for a model that draws, which another shape moves.

    Sizes 2 and 3 are left out where companions matter anyway.
    """
    feed = experiment.feed
    if experiment.session.fixed_batch is not None or feed.base.size < 2:
        return
    if experiment.random:
        experiment.remark("batch sizes were not compared: the model draws other random numbers for another shape")
        return
    if experiment.alone is None:
        yield BatchSize(one=None, raised=experiment.alone_raised, raises_at_two=_raises_at_two(experiment))
        return
    found = BatchSize(one=_settled(experiment, alone_shift(experiment)), lost_axis=_lost_axis(experiment))
    if found.one is not None and band(found.one) is Band.LEAK and not experiment.once(swap_decision).swap.leaks:
        found = replace(found, two=_few(experiment, 2), three=_few(experiment, 3))
    yield found


def _settled(experiment: Experiment, one: Shift | None) -> Shift | None:
    """The difference, or that in float64 when it shows that rounding, amplified, was all there is."""
    if one is None or band(one) is not Band.LEAK or not _may_be_rounding(one):
        return one
    feed = experiment.feed
    double = in_double(experiment, feed.base, feed.alone, ((feed.alone_row, 0),)).shift
    return double if double is not None and persists(one, double) is False else one


def _may_be_rounding(one: Shift) -> bool:
    """Deep nets may amplify rounding a hundred times; a special case of size 1 is no such small thing."""
    return band(one, 64.0 * 100) is not Band.LEAK


def _few(experiment: Experiment, size: int) -> Shift | None:
    if size >= experiment.feed.base.size or not experiment.extras_left:
        return None
    batch = experiment.feed.few(size)
    try:
        few = experiment.extra(f"a batch of {size}", batch, watch=experiment.outputs_only)
    except RunError as error:
        experiment.remark(f"a batch of {size} was not compared: {error}")
        return None
    return shift(experiment.base, few, experiment.axes, ((experiment.feed.alone_row, batch.anchors[0]),))


def _raises_at_two(experiment: Experiment) -> bool | None:
    if not experiment.extras_left or experiment.feed.base.size < 3:
        return None
    try:
        experiment.extra("a batch of 2", experiment.feed.few(2))
    except RunError:
        return True
    return False


def _lost_axis(experiment: Experiment) -> str:
    """The first output whose shape at size 1 is that at full size without the batch axis."""
    if experiment.alone is None:
        return ""
    for full, one, axis in zip(experiment.base.outputs, experiment.alone.outputs, experiment.axes, strict=False):
        shape, single = full.values.shape, one.values.shape
        if axis is not None and len(single) < len(shape):
            size = experiment.feed.base.size
            return f"{full.name or 'the output'} {list(shape)} at size {size}, {list(single)} at size 1"
    return ""


PROBE = Probe(name="batch_size", measure=measure)
