"""What still normalizes with its input, drops at random or changes its state after eval() (BN401, BN402)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind
from bnaudit.experiment import Experiment
from bnaudit.location import by_configuration, location
from bnaudit.measurement import Answer, EvalDropout, EvalNorm, Measurement, StateInEval
from bnaudit.places import holder_of
from bnaudit.probes import Probe
from bnaudit.results import Outcome, Question
from bnaudit.session import NormCall, RandomCall, StateChange

_WITHOUT_MODE = (NormKind.LAYER, NormKind.GROUP, NormKind.RMS)
"""They use their input in every mode; that they mix samples is no matter of eval()."""
_OPERATORLESS = (NormKind.FROZEN_BATCH, NormKind.RMS)
"""Plain arithmetic where they run (TorchScript takes `aten::rms_norm` apart), and without modes."""
_OBSERVERS = ("Observer", "FakeQuant")


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """EvalNorms, EvalDropouts, StateInEvals and the answer."""
    calls = (call for call in experiment.base.norm_calls if call.uses_batch and call.kind not in _WITHOUT_MODE)
    norms = [_norm(experiment, call) for call in calls]
    drops = _dropouts(experiment.base.random_calls)
    states = [_state(experiment, change) for change in experiment.deciding_base.changes]
    yield from (*norms, *drops, *states)
    outcome, reason, needs = _answer(experiment, norms, drops, states)
    yield Answer(question=Question.EVAL_MODE, outcome=outcome, reason=reason, needs=needs)


def _norm(experiment: Experiment, call: NormCall) -> EvalNorm:
    return EvalNorm(
        place=call.place,
        layer=call.layer,
        mixes=_mixes(experiment, call),
        by_configuration=by_configuration(experiment, call.layer),
        updates=call.updates and _has_moved(experiment, call),
    )


def _has_moved(experiment: Experiment, call: NormCall) -> bool:
    """Whether state of its layer or module changed: what was handed over may have been a copy."""
    return any(holder_of(change) in (call.layer, call.place.module) for change in experiment.base.changes)


def _mixes(experiment: Experiment, call: NormCall) -> bool | None:
    """Whether the swap proves that samples meet in it; not looked for where it normalizes over each sample alone."""
    if call.mixes_samples is False:
        return False
    if not experiment.feed.companions_differ:
        return None
    place = experiment.once(location)
    if not place.found:
        return None
    if call.index in place.norm_calls:
        return True
    return False if not place.places or call.index in place.apart else None


def _dropouts(calls: tuple[RandomCall, ...]) -> list[EvalDropout]:
    grouped: dict[RandomCall, int] = {}
    for call in calls:
        if call.is_dropout and call.probability != 0:
            grouped[call] = grouped.get(call, 0) + 1
    return [EvalDropout(call=call, calls=count) for call, count in grouped.items()]


def _state(experiment: Experiment, change: StateChange) -> StateInEval:
    holder = holder_of(change)
    layers = {layer.name for layer in experiment.session.part.layers}
    return StateInEval(
        change=change,
        depends_on_data=_depends_on_data(experiment, change),
        layer=holder if holder in layers else None,
        is_observer=any(word in change.owner for word in _OBSERVERS),
    )


def _depends_on_data(experiment: Experiment, change: StateChange) -> bool | None:
    """Whether other companions leave another value; a cache holds the same after two inputs of one shape."""
    if not experiment.feed.companions_differ:
        return None
    after = {other.name: other.digest for other in experiment.deciding_swapped.changes}
    return after.get(change.name) != change.digest


def _answer(
    experiment: Experiment, norms: list[EvalNorm], drops: list[EvalDropout], states: list[StateInEval]
) -> tuple[Outcome, str, str]:
    mixing = [norm for norm in norms if norm.mixes and not norm.by_configuration]
    stored = [state for state in states if state.change.persistent and state.change.kind != "attribute"]
    learning = [state for state in stored if state.depends_on_data]
    if mixing or drops or learning:
        return Outcome.FAILED, _found(len(mixing), len(drops), len(learning)), ""
    layers, calls = experiment.session.part.layers, experiment.base.norm_calls
    unseen = [layer for layer in layers if layer.kind not in _OPERATORLESS]
    if unseen and not calls:
        return Outcome.NOT_CHECKED, f"no norm operator was seen, though {len(unseen)} norm layers exist", ""
    if any(norm.mixes is None and not norm.by_configuration for norm in norms):
        return Outcome.INCONCLUSIVE, "a norm uses its input's statistics; whether samples mix was not shown", ""
    if any(norm.mixes is not False for norm in norms):
        return Outcome.PASSED, "the batch is used by configuration only, nothing drops", ""
    if not calls:
        return Outcome.PASSED, "no norm operator, nothing drops, no state learns", ""
    return Outcome.PASSED, f"{len(calls)} norm call{'s' * (len(calls) > 1)}, none mixes samples; nothing drops", ""


def _found(mixing: int, drops: int, learning: int) -> str:
    counts = ((mixing, "norm uses the batch", "norms use the batch"), (drops, "dropout drops", "dropouts drop"))
    pieces = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    if learning:
        pieces.append(f"{learning} stored tensor{'s' * (learning > 1)} changed")
    return ", ".join(pieces)


PROBE = Probe(name="eval_mode", measure=measure)
