"""Whether an input's prediction depends on its companions in the batch (BN301)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.experiment import Experiment
from bnaudit.measurement import Answer, Measurement, PoisonedBatch, Swap
from bnaudit.probes import Probe
from bnaudit.results import Outcome, Question
from bnaudit.session import RunError, Trace
from bnaudit.swap import swap_decision


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One Swap, a PoisonedBatch where a NaN spreads, and the answer."""
    if experiment.feed.base.size < 2:
        yield _single(experiment)
        return
    decision = experiment.once(swap_decision)
    yield decision.swap
    if decision.swap.leaks is False and (decision.poisoned or _spreads(experiment, decision.swap)):
        yield PoisonedBatch(place=None)
    lost = decision.outcome is Outcome.INCONCLUSIVE and all(axis is None for axis in experiment.axes)
    needs = "--batch-axis, if the samples stand along another one" if lost and experiment.options.axis is None else ""
    yield Answer(question=Question.NEIGHBOURS, outcome=decision.outcome, reason=decision.reason, needs=needs)


def _single(experiment: Experiment) -> Answer:
    if experiment.session.fixed_batch == 1:
        reason = "neighbours impossible as exported (batch fixed at one)"
        return Answer(question=Question.NEIGHBOURS, outcome=Outcome.PASSED, reason=reason)
    return Answer(
        question=Question.NEIGHBOURS,
        outcome=Outcome.NOT_CHECKED,
        reason="a batch of one was given",
        needs="two or more samples: --inputs, --batch-size",
    )


def _spreads(experiment: Experiment, swap: Swap) -> bool:
    """Whether a companion's NaN reaches an anchor: looked at in doubt, and where the plan has no training runs."""
    poisoned = _poisoned(experiment, in_plan=swap.other.exact)
    if poisoned is None:
        return False
    return experiment.anchors_shift(experiment.deciding_base, poisoned).difference == math.inf


def _poisoned(experiment: Experiment, in_plan: bool) -> Trace | None:
    if experiment.trains if in_plan else not experiment.extras_left:
        return None
    batch = experiment.feed.poisoned()
    if batch is None:
        return None
    name = "companions NaN"
    try:
        if in_plan:
            return experiment.planned(name, batch)
        return experiment.extra(name, batch, seed=experiment.seed)
    except RunError as error:
        experiment.remark(f"a batch with NaN was refused: {error}")
        return None


PROBE = Probe(name="neighbours", measure=measure)
