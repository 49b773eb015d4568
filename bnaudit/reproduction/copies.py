"""Copies of one sample in one batch: their outputs must be the same (BN305)."""

from __future__ import annotations

from bnaudit.feeds.pools import Pool
from bnaudit.measurement import Shift
from bnaudit.reproduction.demonstration import Demonstration, Kind
from bnaudit.reproduction.differing import axes_of, limit_of, place_of, row_values, shows, still_shows
from bnaudit.reproduction.samples import Samples
from bnaudit.reproduction.trials import Trials
from bnaudit.reproduction.zeroing import zeroed
from bnaudit.session import Mode, Trace
from bnaudit.shifts import Axes, shift

_SIZES = (2, 4, 8)


def find(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """The first batch of copies whose first and last row differ."""
    fixed = trials.session.fixed_batch
    other = trials.tolerated(samples.pool, (0, 0, 0), mode) if fixed is None else None
    for size in _SIZES if fixed is None else (fixed,):
        trace = trials.tolerated(samples.pool, (0,) * size, mode) if size > 1 else None
        if trace is None:
            continue
        axes = axes_of(trials.session, samples.pool, trace, size, other, 3)
        found = _apart(trace, axes, size)
        if shows(found):
            return _small(trials, samples, mode, axes, size, found)
    return None


def _apart(trace: Trace, axes: Axes, size: int) -> Shift:
    return shift(trace, trace, axes, ((0, size - 1),))


def _small(trials: Trials, samples: Samples, mode: Mode, axes: Axes, size: int, first: Shift) -> Demonstration:
    rows = (0,) * size

    def fails(pool: Pool) -> bool:
        trace = trials.tolerated(pool, rows, mode)
        return trace is not None and still_shows(_apart(trace, axes, size), first)

    empty = zeroed(samples.pool.take([0]), fails, trials.may_go_on)
    trace = trials.run(empty.pool, rows, mode)
    found = _apart(trace, axes, size)
    output = place_of(trace, found.output)
    return Demonstration(
        rule="BN305",
        kind=Kind.COPIES,
        mode=mode,
        pool=empty.pool,
        labels=samples.labels[:1],
        batches=(rows,),
        anchor=size - 1,
        output=output,
        outputs=len(trace.outputs),
        output_name=found.output,
        axis=axes[output],
        difference=found.difference,
        limit=limit_of(found),
        values=tuple(row_values(trace, output, axes[output], row) for row in (0, size - 1)),
        seed=trials.seed,
        zeroed=empty.share,
        compute_dtype=trace.compute_dtype,
    )
