"""Whether companions matter: the swap at a fixed batch size decides, since its kernels sum in the same order.

Exactly 0: they do not. Beyond 64 epsilons of the output's scale: they do. Between: float64 decides, else the gradient.
Source of the figures: measured on convolutions, transformers, LSTMs, mixtures of experts, int8, fp64 to bf16.
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.experiment import Experiment
from bnaudit.location import Location, location
from bnaudit.measurement import Shift, Swap
from bnaudit.mixing_causes import OF_LAYOUT, usual_cause
from bnaudit.records import replace
from bnaudit.results import Outcome
from bnaudit.session import Batch, NotPossibleError, RunError, Trace
from bnaudit.shifts import Band, band, floating_rows, rows_differ, shift
from bnaudit.tie_break import Double, in_double, persists

_LAYOUT = "axis 0 of synthetic sequences was guessed to hold the samples; give --inputs or --batch-axis"


class Decision(NamedTuple):
    """What the swap showed and what follows."""

    swap: Swap
    outcome: Outcome
    reason: str
    poisoned: bool = False
    """Companions × 100 made an anchor's output infinite or NaN, though other companions do not move it."""


def swap_decision(experiment: Experiment) -> Decision:
    """The swap of companions, decided. Needs a batch of two or more."""
    base, swapped, scaled = experiment.deciding_base, experiment.deciding_swapped, experiment.deciding_scaled
    other = experiment.anchors_shift(base, swapped)
    times = experiment.anchors_shift(base, scaled) if scaled is not None else None
    poisoned = other.exact and times is not None and times.difference == float("inf")
    widest = other if times is None or poisoned or times.epsilons <= other.epsilons else times
    if not widest.exact and band(widest) is Band.LEAK and _is_unrepeatable(experiment, base):
        why = "its outputs change from run to run, whatever seeds are set"
        return Decision(_swap(experiment, other, times, None), Outcome.INCONCLUSIVE, why)
    double, influence, leaks = _weigh(experiment, widest, widest is not other)
    if leaks and experiment.random and _is_drawn(experiment, base):
        return Decision(
            _swap(experiment, other, times, None), Outcome.INCONCLUSIVE, "what it draws depends on the whole batch"
        )
    swap = _swap(experiment, other, times, leaks, double, influence)
    if leaks and experiment.feed.guessed_layout and _may_be_layout(swap):
        return Decision(replace(swap, undecided=_LAYOUT), Outcome.INCONCLUSIVE, _LAYOUT)
    outcome, reason = _conclude(experiment, swap, widest)
    return Decision(swap, outcome, reason, poisoned)


def _may_be_layout(swap: Swap) -> bool:
    """Whether samples meet in nothing but recurrent layers and attention, which take sequences in either layout."""
    return bool(swap.mixing) and all(usual_cause(found) in OF_LAYOUT for found in swap.mixing)


def control_moves(experiment: Experiment) -> bool | None:
    """Whether companions move the anchors with the norms in training mode; None: no norm used the batch there."""
    one, other = experiment.training, experiment.training_swapped
    if one is None or other is None:
        return None
    mixing = [call for call in one.norm_calls if call.uses_batch and call.mixes_samples is not False]
    if not any(call.kind.is_batch for call in mixing):
        return None
    return not experiment.anchors_shift(one, other).exact


def _weigh(experiment: Experiment, widest: Shift, scaled: bool) -> tuple[Double, float | None, bool | None]:
    """The tie-break where one is needed, and whether companions matter."""
    found = band(widest)
    if found is not Band.NOISE:
        return Double(None), None, found is Band.LEAK
    feed = experiment.feed
    double = in_double(experiment, feed.base, feed.scaled if scaled else feed.swapped, experiment.anchor_pairs)
    leaks = persists(widest, double.shift)
    if leaks is not None:
        return double, None, leaks
    influence = _influence(experiment)
    return double, influence, None if influence is None else influence > 0


def _influence(experiment: Experiment) -> float | None:
    if not experiment.extras_left:
        return None
    experiment.begin_extra("the gradient to the companions")
    try:
        return experiment.session.influence(experiment.feed.base)
    except (NotPossibleError, RunError) as error:
        experiment.remark(f"no gradient was taken: {error}")
        return None


def _is_unrepeatable(experiment: Experiment, base: Trace) -> bool:
    """Whether a model that draws random numbers does so whatever seeds are set."""
    if not experiment.random or not experiment.extras_left:
        return False
    repeat = experiment.extra("the batch, seeded again", experiment.feed.base, seed=experiment.seed)
    return not experiment.anchors_shift(base, repeat).exact


def _is_drawn(experiment: Experiment, base: Trace) -> bool:
    """Whether nothing but operators that draw was seen to make rows unequal: how many numbers some take (a randomized
    ReLU, a Poisson) depends on the values, so that seeds do not make them the same for the rows behind."""
    place = experiment.once(location)
    drawing = {call.place.operator for call in base.random_calls}
    return place.found and bool(drawing) and all(found.place.operator in drawing for found in place.places)


def _swap(
    experiment: Experiment,
    other: Shift,
    scaled: Shift | None,
    leaks: bool | None,
    double: Double = Double(None),  # noqa: B008 - a NamedTuple does not change
    influence: float | None = None,
) -> Swap:
    base, feed = experiment.deciding_base, experiment.feed
    place = experiment.once(location) if leaks else Location(False)
    rows = experiment.distinct_anchors
    return Swap(
        other=other,
        scaled=scaled,
        double=double.shift,
        double_why=double.why,
        influence=influence,
        alone=alone_shift(experiment),
        anchors_differ=rows_differ(base, experiment.axes, rows if len(rows) > 1 else range(feed.base.size)),
        control_moves=control_moves(experiment),
        floating=any(True for _ in floating_rows(base, experiment.axes, rows)),
        mixing=place.places,
        located=place.found,
        smallest_set=_smallest_set(experiment) if leaks and not _is_told_by_norms(place) else None,
        batch_size=feed.base.size,
        companions=feed.base.size - len(feed.base.anchors),
        seeded=experiment.random,
        leaks=leaks,
    )


def alone_shift(experiment: Experiment) -> Shift | None:
    """An anchor alone against the same with companions; None for a model that draws: other shapes draw otherwise."""
    if experiment.random or experiment.alone is None:
        return None
    pairs = ((experiment.feed.alone_row, 0),)
    return shift(experiment.base, experiment.alone, experiment.axes, pairs)


def _is_told_by_norms(place: Location) -> bool:
    """Whether all that mixes are norms whose own statistics are passed by: BN401 says so, and needs no smallest set."""
    return bool(place.places) and all(each.is_norm and not each.by_configuration for each in place.places)


def _smallest_set(experiment: Experiment) -> int | None:
    """1 when one companion is enough to move an anchor; None: not tried, or more are needed."""
    feed = experiment.feed
    if experiment.random or experiment.session.fixed_batch or feed.base.size < 3:
        return None
    if experiment.extras_left < 2:
        experiment.remark("the smallest set of companions was not looked for: all further forwards were used")
        return None
    batches: tuple[Batch, Batch] = feed.pair(False), feed.pair(True)
    try:
        watch = experiment.outputs_only
        one, other = (experiment.extra("one companion", batch, watch=watch) for batch in batches)
    except RunError as error:
        experiment.remark(f"the smallest set of companions was not found: {error}")
        return None
    row = batches[0].anchors[0]
    return 1 if band(shift(one, other, experiment.axes, ((row, row),))) is Band.LEAK else None


def _conclude(experiment: Experiment, swap: Swap, widest: Shift) -> tuple[Outcome, str]:
    if swap.leaks:
        share = f" ({widest.difference / widest.scale:.2g} of its scale)" if widest.scale > 0 else ""
        return Outcome.FAILED, f"companions move a prediction by {widest.difference:.2g}{share}"
    if doubt := _doubt(experiment, swap):
        return Outcome.INCONCLUSIVE, doubt
    if not swap.floating:
        return _integers(experiment)
    if swap.control_moves is False:
        return Outcome.INCONCLUSIVE, "companions move nothing even in training mode"
    if swap.leaks is None:
        why = f": {swap.double_why}" if swap.double_why else ""
        return Outcome.INCONCLUSIVE, f"a difference of {widest.difference:.1g} may be noise{why}"
    if widest.exact:
        seeded = ", seeds reset" if swap.seeded else ""
        return Outcome.PASSED, f"bit-equal with {swap.companions} companions exchanged{seeded}"
    shown = f", {swap.double.difference:.1g} in float64" if swap.double is not None else ", no gradient"
    return Outcome.PASSED, f"kernel noise only: {widest.difference:.1g}{shown}"


def _doubt(experiment: Experiment, swap: Swap) -> str:
    """Why an exact swap would prove nothing."""
    if not experiment.feed.companions_differ:
        return "the companions are equal bit by bit"
    if all(axis is None for axis in experiment.axes):
        return "no output has a batch axis"
    if not swap.anchors_differ:
        return "different anchors have equal outputs"
    if swap.floating and swap.other.exact and not swap.other.scale and not _finite(experiment):
        return "the outputs are not finite"
    return ""


def _finite(experiment: Experiment) -> bool:
    import numpy as np

    rows = floating_rows(experiment.deciding_base, experiment.axes, experiment.feed.base.anchors)
    return any(bool(np.isfinite(values).any()) for _, values in rows)


def _integers(experiment: Experiment) -> tuple[Outcome, str]:
    """Integer outputs that stay equal decide nothing; the tensors before them do."""
    place = experiment.once(location)
    if place.found and place.all_equal:
        return Outcome.PASSED, "all tensors before the integer outputs are bit-equal"
    if place.places:
        return (
            Outcome.INCONCLUSIVE,
            f"integer outputs, and samples meet in {place.places[0].place.module or 'the root'}",
        )
    return Outcome.INCONCLUSIVE, "integer outputs that stay equal decide nothing"
