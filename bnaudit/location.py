"""Where samples meet: the operators that get equal rows and return unequal ones when the companions are exchanged.

Behind a norm that mixes everything differs, so both runs normalize with the first run's batch statistics: what still
differs there was mixed there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.experiment import BudgetSpent, Experiment
from bnaudit.measurement import Mixing
from bnaudit.modes import keeps_buffers
from bnaudit.session import Batch, Held, NormCall, NotPossibleError, OperatorCall, Trace, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence


class Location(NamedTuple):
    """The places where samples meet, as far as operators could be followed."""

    found: bool
    """Whether the two runs were made."""
    places: tuple[Mixing, ...] = ()
    norm_calls: frozenset[int] = frozenset()
    """NormCall.index of the norms among them."""
    all_equal: bool = False
    """Every operator's anchor rows are the same in both runs."""


def location(experiment: Experiment) -> Location:
    """Two further forwards with fingerprints of the anchors' rows, batch statistics held in both."""
    if experiment.extras_left < 2:
        experiment.remark("what mixes samples was not located: all further forwards were used")
        return Location(False)
    calls = experiment.deciding_base.norm_calls
    hold = tuple(held for call in calls if (held := _held(call)) is not None)
    try:
        first, second = (
            experiment.extra(name, batch, watch=Watch.ROWS, hold=hold, seed=experiment.seed)
            for name, batch in (("to locate", experiment.feed.base), _telling(experiment))
        )
    except (NotPossibleError, BudgetSpent) as error:
        experiment.remark(f"what mixes samples was not located: {error}")
        return Location(False)
    return _location(experiment, first, second)


def _telling(experiment: Experiment) -> tuple[str, Batch]:
    """Companions that move an anchor: larger ones where only these do, as in a range that is clamped."""
    scaled = experiment.deciding_scaled
    if scaled is not None and experiment.anchors_shift(experiment.deciding_base, experiment.deciding_swapped).exact:
        larger = experiment.anchors_shift(experiment.deciding_base, scaled)
        if not larger.exact and math.isfinite(larger.difference):
            return "to locate, companions × 100", experiment.feed.scaled
    return "to locate, companions swapped", experiment.feed.swapped


def by_configuration(experiment: Experiment, layer: str | None) -> bool:
    """Whether a norm layer keeps no statistics, so that it uses the batch in every mode."""
    named = (entry for entry in experiment.session.part.layers if entry.name == layer)
    return any(entry.kind.is_batch and not keeps_buffers(entry) for entry in named)


def _held(call: NormCall) -> Held | None:
    if not call.uses_batch or call.mixes_samples is False or call.batch_mean is None or call.batch_var is None:
        return None
    return Held(index=call.index, mean=call.batch_mean, var=call.batch_var)


def _location(experiment: Experiment, first: Trace, second: Trace) -> Location:
    from bnaudit.mixing import emerging, mixing

    layers = {call.index: call.layer for call in first.norm_calls}
    kinds = {call.index: call.kind for call in first.norm_calls}
    operators = mixing(first.operators, second.operators)
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
    return Location(True, places, norms, _all_equal(first.operators, second.operators))


def _all_equal(first: Sequence[OperatorCall], second: Sequence[OperatorCall]) -> bool:
    rows = [(one.rows_out, other.rows_out) for one, other in zip(first, second, strict=False)]
    seen = [one for one, _ in rows if one is not None]
    return bool(seen) and len(first) == len(second) and all(one == other for one, other in rows)
