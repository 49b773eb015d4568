"""The same batch twice: other outputs by chance (BN302), or by what the first forward left behind (BN306, BN402)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bnaudit.feeds.pools import Pool
from bnaudit.measurement import Shift
from bnaudit.records import replace
from bnaudit.reproduction.demonstration import Demonstration, Kind
from bnaudit.reproduction.differing import limit_of, place_of, shows, still_shows
from bnaudit.reproduction.minimal import minimal
from bnaudit.reproduction.samples import Samples
from bnaudit.reproduction.trials import Trials
from bnaudit.reproduction.zeroing import zeroed
from bnaudit.session import Mode, RunError, Trace, Watch
from bnaudit.shifts import whole_shift

T = TypeVar("T")
_ROWS = 8
"""Samples of the first batch."""


def find_random(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """The same batch from the same state gives other outputs, whenever generators stand elsewhere."""

    def twice(pool: Pool, rows: tuple[int, ...]) -> tuple[Trace, Trace]:
        first, second, third = (trials.run(pool, rows, mode, seed=seed) for seed in (0, None, None))
        smaller = min((second, third), key=lambda other: whole_shift(first, other).epsilons)
        return first, smaller  # of two draws the nearer one, so that the case does not hang on luck

    found = _find(trials, samples, mode, twice, Kind.RANDOM, "BN302")
    if found is None:
        return None
    seen = trials.run(found.pool, found.batches[0], mode, Watch.CALLS, seed=0)
    places = dict.fromkeys(call.place.module or call.place.source or call.place.operator for call in seen.random_calls)
    return replace(found, layers=tuple(places))


def find_history(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """The same batch directly afterwards gives other outputs: the first forward left something behind."""

    def twice(pool: Pool, rows: tuple[int, ...]) -> tuple[Trace, Trace]:
        return trials.run(pool, rows, mode), trials.run(pool, rows, mode, restored=False)

    found = _find(trials, samples, mode, twice, Kind.REPEAT, "BN306")
    if found is None:
        return None
    changes = trials.run(found.pool, found.batches[0], mode).changes
    return replace(found, layers=tuple(dict.fromkeys(change.name for change in changes)))


def find_state(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """A forward leaves buffers or parameters changed."""

    def changed(pool: Pool, rows: tuple[int, ...]) -> tuple[str, ...]:
        changes = trials.run(pool, rows, mode).changes
        return tuple(change.name for change in changes if change.kind in ("buffer", "parameter"))

    rows = _first_rows(trials, samples)
    nothing: tuple[str, ...] = ()
    names = _safely(lambda: changed(samples.pool, rows), nothing)
    if not names:
        return None
    few = _few(rows, lambda some: set(_safely(lambda: changed(samples.pool, some), nothing)) >= set(names), trials)
    pool = samples.pool.take(few)
    every = tuple(range(len(few)))
    empty = zeroed(
        pool, lambda other: set(_safely(lambda: changed(other, every), nothing)) >= set(names), trials.may_go_on
    )
    trace = trials.run(empty.pool, every, mode)
    return Demonstration(
        rule="BN402",
        kind=Kind.STATE,
        mode=mode,
        pool=empty.pool,
        labels=tuple(samples.labels[row] for row in few),
        batches=(every,),
        changed=names,
        layers=tuple(dict.fromkeys(name.rpartition(".")[0] or name for name in names)),
        zeroed=empty.share,
        compute_dtype=trace.compute_dtype,
        seed=trials.seed,
    )


def _find(
    trials: Trials,
    samples: Samples,
    mode: Mode,
    twice: Callable[[Pool, tuple[int, ...]], tuple[Trace, Trace]],
    kind: Kind,
    rule: str,
) -> Demonstration | None:
    def apart(pool: Pool, rows: tuple[int, ...]) -> Shift:
        return _safely(lambda: whole_shift(*twice(pool, rows)), Shift(exact=True))

    rows = _first_rows(trials, samples)
    first = apart(samples.pool, rows)
    if not shows(first):
        return None
    few = _few(rows, lambda some: still_shows(apart(samples.pool, some), first), trials)
    every = tuple(range(len(few)))
    empty = zeroed(samples.pool.take(few), lambda pool: still_shows(apart(pool, every), first), trials.may_go_on)
    traces = twice(empty.pool, every)
    found = whole_shift(*traces)
    output = place_of(traces[0], found.output)
    return Demonstration(
        rule=rule,
        kind=kind,
        mode=mode,
        pool=empty.pool,
        labels=tuple(samples.labels[row] for row in few),
        batches=(every,),
        output=output,
        outputs=len(traces[0].outputs),
        output_name=found.output,
        difference=found.difference,
        limit=limit_of(found),
        values=tuple(trace.outputs[output].values for trace in traces),
        seed=trials.seed,
        zeroed=empty.share,
        compute_dtype=traces[0].compute_dtype,
        fresh=kind is Kind.RANDOM and bool(traces[0].changes),
    )


def _first_rows(trials: Trials, samples: Samples) -> tuple[int, ...]:
    wanted = trials.session.fixed_batch or min(_ROWS, samples.pool.size)
    return tuple(row % samples.pool.size for row in range(wanted))


def _few(rows: tuple[int, ...], fails: Callable[[tuple[int, ...]], bool], trials: Trials) -> tuple[int, ...]:
    """As few rows as show it; where the batch has one size, as few different ones."""
    fixed = trials.session.fixed_batch

    def filled(some: tuple[int, ...]) -> tuple[int, ...]:
        return (some * (fixed or 1))[:fixed] if fixed is not None else some

    few = minimal(tuple(dict.fromkeys(rows)), lambda some: bool(some) and fails(filled(some)), trials.may_go_on)
    return filled(few)


def _safely(make: Callable[[], T], otherwise: T) -> T:
    """What the model does not take shows nothing."""
    try:
        return make()
    except RunError:
        return otherwise


def draws(trials: Trials, samples: Samples, mode: Mode) -> bool:
    """Whether the model draws random numbers in this mode, or its output is another from the same state."""
    rows = _first_rows(trials, samples)
    nothing: tuple[Trace, ...] = ()
    pair = _safely(lambda: tuple(trials.run(samples.pool, rows, mode, seed=seed) for seed in (0, None)), nothing)
    return len(pair) == 2 and (bool(pair[0].random_calls) or not whole_shift(*pair).exact)
