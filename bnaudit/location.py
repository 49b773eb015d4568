"""Where samples meet: the operators that get equal rows and return unequal ones when the companions are exchanged.

Behind what mixes everything differs. So both runs normalize with the first run's batch statistics, and are made again
with the anchors' rows of the first behind every other operator that mixes: what still differs there was mixed there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.experiment import BudgetSpent, Experiment
from bnaudit.measurement import Mixing
from bnaudit.modes import keeps_buffers
from bnaudit.session import Batch, Held, NormCall, NotPossibleError, OperatorCall, Pinned, Trace, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence


_KEPT_BACK = 2
"""Further forwards that are left for the smallest set of companions."""


class Location(NamedTuple):
    """The places where samples meet, as far as operators could be followed."""

    found: bool
    """Whether the two runs were made."""
    places: tuple[Mixing, ...] = ()
    norm_calls: frozenset[int] = frozenset()
    """NormCall.index of the norms among them."""
    apart: frozenset[int] = frozenset()
    """NormCall.index of the norms that equal rows entered and left, behind all other places too."""
    all_equal: bool = False
    """Every operator's anchor rows are the same in both runs."""


def location(experiment: Experiment) -> Location:
    """Two further forwards with fingerprints of the anchors' rows, batch statistics held in both; and two more."""
    if experiment.extras_left < 2:
        experiment.remark("what mixes samples was not located: all further forwards were used")
        return Location(False)
    calls = experiment.deciding_base.norm_calls
    hold = tuple(held for call in calls if (held := _held(call)) is not None)
    what, batch = _telling(experiment)
    try:
        first = _watched(experiment, "to locate", experiment.feed.base, hold)
        second = _watched(experiment, f"to locate, {what}", batch, hold)
    except (NotPossibleError, BudgetSpent) as error:
        experiment.remark(f"what mixes samples was not located: {error}")
        return Location(False)
    found, last = _found_behind(experiment, hold, first, second)
    return _location(experiment, (first, second), last, found)


def _watched(
    experiment: Experiment, name: str, batch: Batch, hold: tuple[Held, ...], pin: tuple[Pinned, ...] = ()
) -> Trace:
    return experiment.extra(name, batch, watch=Watch.ROWS, hold=hold, pin=pin, seed=experiment.seed)


def _found_behind(
    experiment: Experiment, hold: tuple[Held, ...], first: Trace, second: Trace
) -> tuple[list[OperatorCall], tuple[Trace, Trace]]:
    """The operators that mix, those behind others that are no norms included; the runs that tell most."""
    from bnaudit.mixing import mixing

    found = mixing(first.operators, second.operators)
    pin = tuple(Pinned(index=call.index) for call in found if call.norm is None)
    if not pin or experiment.extras_left < 2 + _KEPT_BACK:
        return found, (first, second)
    what, batch = _telling(experiment)
    try:
        one = _watched(experiment, "to look behind", experiment.feed.base, hold, pin)
        other = _watched(experiment, f"to look behind, {what}", batch, hold, one.pinned)
    except (NotPossibleError, BudgetSpent) as error:
        experiment.remark(f"what mixes samples behind the first place was not looked for: {error}")
        return found, (first, second)
    known = {call.index for call in found}
    behind = [call for call in mixing(one.operators, other.operators) if call.index not in known]
    return sorted((*found, *behind), key=lambda call: call.index), (one, other)


def _telling(experiment: Experiment) -> tuple[str, Batch]:
    """Companions that move an anchor: larger ones where only these do, as in a range that is clamped."""
    scaled = experiment.deciding_scaled
    if scaled is not None and experiment.anchors_shift(experiment.deciding_base, experiment.deciding_swapped).exact:
        larger = experiment.anchors_shift(experiment.deciding_base, scaled)
        if not larger.exact and math.isfinite(larger.difference):
            return "companions × 100", experiment.feed.scaled
    return "companions swapped", experiment.feed.swapped


def by_configuration(experiment: Experiment, layer: str | None) -> bool:
    """Whether a norm layer keeps no statistics, so that it uses the batch in every mode."""
    named = (entry for entry in experiment.session.part.layers if entry.name == layer)
    return any(entry.kind.is_batch and not keeps_buffers(entry) for entry in named)


def _held(call: NormCall) -> Held | None:
    if not call.uses_batch or call.mixes_samples is False or call.batch_mean is None or call.batch_var is None:
        return None
    return Held(index=call.index, mean=call.batch_mean, var=call.batch_var)


def _location(
    experiment: Experiment, runs: tuple[Trace, Trace], last: tuple[Trace, Trace], operators: list[OperatorCall]
) -> Location:
    from bnaudit.mixing import emerging

    first, second = runs
    layers = {call.index: call.layer for call in first.norm_calls}
    kinds = {call.index: call.kind for call in first.norm_calls}
    places = tuple(
        Mixing(
            place=call.place,
            layer=layers.get(call.norm) if call.norm is not None else None,
            is_norm=call.norm is not None,
            by_configuration=call.norm is not None and by_configuration(experiment, layers.get(call.norm)),
            first=at == 0,
            kind=kinds.get(call.norm) if call.norm is not None else None,
            gathered=call.gathered,
            arranged=call.arranged,
        )
        for at, call in enumerate(operators)
    )
    if not places and (call := emerging(first.operators, second.operators)) is not None:
        places = (Mixing(place=call.place, layer=None, is_norm=False, unseen=True),)
    norms = frozenset(call.norm for call in operators if call.norm is not None)
    return Location(True, places, norms, _apart(*last), _all_equal(first.operators, second.operators))


def _apart(first: Trace, second: Trace) -> frozenset[int]:
    return frozenset(
        one.norm
        for one, other in zip(first.operators, second.operators, strict=False)
        if one.norm is not None and one.norm == other.norm and _is_equal(one, other)
    )


def _is_equal(one: OperatorCall, other: OperatorCall) -> bool:
    rows = (one.rows_in, one.rows_out)
    return None not in rows and rows == (other.rows_in, other.rows_out)


def _all_equal(first: Sequence[OperatorCall], second: Sequence[OperatorCall]) -> bool:
    rows = [(one.rows_out, other.rows_out) for one, other in zip(first, second, strict=False)]
    seen = [one for one, _ in rows if one is not None]
    return bool(seen) and len(first) == len(second) and all(one == other for one, other in rows)
