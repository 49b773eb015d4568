"""One sample, bit for bit the same, whose output changes with its companions (BN301)."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.feeds.pools import Pool
from bnaudit.measurement import Shift
from bnaudit.reproduction.demonstration import Demonstration, Kind
from bnaudit.reproduction.differing import axes_of, least_of, limit_of, place_of, row_values, shows, still_shows
from bnaudit.reproduction.guilty import guilty
from bnaudit.reproduction.minimal import minimal
from bnaudit.reproduction.samples import Samples
from bnaudit.reproduction.trials import Trials
from bnaudit.reproduction.zeroing import zeroed
from bnaudit.session import Mode, Trace
from bnaudit.shifts import Axes, shift

_MOST_COMPANIONS = 15
Pairs = tuple[tuple[int, int], ...]
"""Companions and the ones that take their places."""


class _Search(NamedTuple):
    trials: Trials
    mode: Mode
    axes: Axes
    fixed: int | None
    last: bool
    """The compared sample stands behind its companions, otherwise in front of them."""

    def rows(self, pairs: Pairs, side: int) -> tuple[int, ...]:
        """Row 0 of the pool with one companion of each pair; copies of it fill a batch whose size is fixed."""
        companions = [pair[side] for pair in pairs]
        if self.fixed is not None:
            companions += [0] * (self.fixed - 1 - len(companions))
        return (*companions, 0) if self.last else (0, *companions)

    def place(self, pairs: Pairs) -> int:
        """Where the compared sample stands."""
        return len(self.rows(pairs, 0)) - 1 if self.last else 0

    def ran(self, pool: Pool, pairs: Pairs) -> tuple[Trace, Trace] | None:
        first = self.trials.tolerated(pool, self.rows(pairs, 0), self.mode)
        second = self.trials.tolerated(pool, self.rows(pairs, 1), self.mode) if first is not None else None
        return None if first is None or second is None else (first, second)

    def apart(self, pool: Pool, pairs: Pairs) -> Shift | None:
        """None where the model raised."""
        traces = self.ran(pool, pairs) if pairs else None
        if traces is None:
            return None
        place = self.place(pairs)
        return shift(*traces, self.axes, ((place, place),))


def find(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """The smallest case, or None: companions do not matter in this mode, as far as these samples show."""
    pool, fixed = samples.pool, trials.session.fixed_batch
    count = min((pool.size - 1) // 2, _MOST_COMPANIONS, *([fixed - 1] if fixed is not None else []))
    pairs = tuple((1 + at, 1 + count + at) for at in range(count))
    if not pairs:
        return None
    for last in (True, False):
        search = _Search(trials, mode, (), fixed, last)
        traces = search.ran(pool, pairs)
        if traces is None:
            return None
        alone = trials.tolerated(pool, (0,), mode) if fixed is None else None
        size = len(search.rows(pairs, 0))
        search = search._replace(axes=axes_of(trials.session, pool, traces[0], size, alone, 1))
        place = search.place(pairs)
        found = shift(*traces, search.axes, ((place, place),))
        if shows(found):
            return _small(search, samples, pairs, found)
    return None


def _small(search: _Search, samples: Samples, pairs: Pairs, first: Shift) -> Demonstration:
    go_on = search.trials.may_go_on

    def fails(pool: Pool, some: Pairs) -> bool:
        found = search.apart(pool, some)
        return found is not None and still_shows(found, first)

    few = minimal(pairs, lambda some: fails(samples.pool, some), go_on)
    used = sorted({0, *(row for pair in few for row in pair)})
    at = {row: place for place, row in enumerate(used)}
    moved = tuple((at[one], at[other]) for one, other in few)
    empty = zeroed(samples.pool.take(used), lambda pool: fails(pool, moved), go_on)
    traces, found = search.ran(empty.pool, moved), search.apart(empty.pool, moved)
    assert traces is not None and found is not None
    place = search.place(moved)
    output = place_of(traces[0], found.output)
    rows = search.rows(moved, 0), search.rows(moved, 1)
    least = least_of(first)

    def differ(one: Trace, other: Trace) -> bool:
        return shows(shift(one, other, search.axes, ((place, place),)), least)

    where = guilty(search.trials, empty.pool, rows, place, search.mode, differ)
    return Demonstration(
        rule="BN301" if search.mode is Mode.INFERENCE else "BN201",
        kind=Kind.NEIGHBOURS,
        mode=search.mode,
        pool=empty.pool,
        labels=tuple(samples.labels[row] for row in used),
        batches=rows,
        anchor=place,
        output=output,
        outputs=len(traces[0].outputs),
        output_name=found.output,
        axis=search.axes[output],
        difference=found.difference,
        limit=limit_of(found),
        values=tuple(row_values(trace, output, search.axes[output], place) for trace in traces),
        seed=search.trials.seed,
        fresh=bool(traces[0].changes),
        layers=where.layers,
        case=where.case,
        zeroed=empty.share,
        compute_dtype=traces[0].compute_dtype,
    )
