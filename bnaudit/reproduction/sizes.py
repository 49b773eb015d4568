"""One sample alone: the model raises, loses the batch axis, or gives another output than among companions (BN303)."""

from __future__ import annotations

from bnaudit.measurement import Shift
from bnaudit.reproduction.demonstration import Demonstration, Kind
from bnaudit.reproduction.differing import limit_of, place_of, shows
from bnaudit.reproduction.minimal import minimal
from bnaudit.reproduction.samples import Samples
from bnaudit.reproduction.trials import Trials
from bnaudit.session import Mode, RunError, Trace
from bnaudit.shifts import BAND, Axes, row_axes, shift

_COMPANIONS = 7
_AMPLIFIED = 100 * BAND
"""Epsilons to which deep nets may amplify the rounding of another batch size."""


def find(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """None where the size does not matter, or is fixed."""
    if trials.session.fixed_batch is not None or samples.pool.size < 3:
        return None
    companions = tuple(range(1, min(_COMPANIONS, samples.pool.size - 1) + 1))
    among, fewer = (trials.tolerated(samples.pool, (0, *some), mode) for some in (companions, companions[:-1]))
    if among is None or fewer is None:
        return None
    axes = row_axes(among, samples.pool.take((0, *companions)).batch(), fewer, len(companions))
    alone, raised = _alone(trials, samples, mode)

    def fails(some: tuple[int, ...]) -> bool:
        """With at least one companion it runs, and gives something else than alone."""
        other = trials.tolerated(samples.pool, (0, *some), mode) if some else None
        return other is not None and (alone is None or _differs(other, alone, axes) is not None)

    if not fails(companions):
        return None
    rows = (0, *minimal(companions, fails, trials.may_go_on))
    return _shown(trials, samples, mode, axes, rows, alone, raised)


def _shown(
    trials: Trials,
    samples: Samples,
    mode: Mode,
    axes: Axes,
    rows: tuple[int, ...],
    alone: Trace | None,
    raised: str,
) -> Demonstration:
    last = trials.run(samples.pool, rows, mode)
    found = Shift(exact=False) if alone is None else (_differs(last, alone, axes) or Shift(exact=True))
    output = place_of(last, found.output)
    return Demonstration(
        rule="BN303",
        kind=Kind.SIZE,
        mode=mode,
        pool=samples.pool.take(rows),
        labels=tuple(samples.labels[row] for row in rows),
        batches=((0,), tuple(range(len(rows)))),
        output=output,
        outputs=len(last.outputs),
        output_name=found.output,
        axis=axes[output],
        difference=found.difference,
        limit=limit_of(found),
        values=() if alone is None else (alone.outputs[output].values, last.outputs[output].values),
        raised=raised,
        compute_dtype=last.compute_dtype,
        seed=trials.seed,
        fresh=bool(last.changes),
    )


def _alone(trials: Trials, samples: Samples, mode: Mode) -> tuple[Trace | None, str]:
    try:
        return trials.run(samples.pool, (0,), mode), ""
    except RunError as error:
        return None, str(error)


def _differs(among: Trace, alone: Trace, axes: Axes) -> Shift | None:
    """How far the sample's output is from the one alone; None: equal but for rounding, and of the same shape."""
    for one, single, axis in zip(among.outputs, alone.outputs, axes, strict=False):
        if axis is not None and single.values.ndim != one.values.ndim:
            shapes = f"{list(one.values.shape)} and {list(single.values.shape)}"
            return Shift(exact=False, output=one.name, dtype=one.dtype, shapes=shapes, difference=float("inf"))
    found = shift(among, alone, axes, ((0, 0),))
    return found if shows(found, _AMPLIFIED) else None
