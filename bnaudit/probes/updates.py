"""Which norms update their statistics after the model's own train(), and whether frozen ones do (BN501)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Part
from bnaudit.experiment import Experiment
from bnaudit.measurement import Answer, Measurement, Trained
from bnaudit.modes import is_frozen_but_updating, something_trains, updates_in_training
from bnaudit.probes import Probe
from bnaudit.results import Outcome, Question


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """One Trained and the answer, for what has a train()."""
    part = experiment.session.trained()
    if part is None:
        return
    yield Trained(part=part)
    outcome, reason = _answer(part)
    yield Answer(question=Question.FROZEN, outcome=outcome, reason=reason)


def _answer(part: Part) -> tuple[Outcome, str]:
    updating = sum(map(updates_in_training, part.layers))
    frozen = sum(map(is_frozen_but_updating, part.layers))
    if not updating:
        return Outcome.PASSED, "no norm updates statistics in train()"
    if not something_trains(part):
        return Outcome.PASSED, "no parameter trains"
    if updating == 1:
        single = "the norm that updates in train() is frozen", "1 norm updates in train(), and is not frozen"
        return (Outcome.FAILED, single[0]) if frozen else (Outcome.PASSED, single[1])
    if frozen:
        return Outcome.FAILED, f"{frozen} of {updating} norms that update in train() {_be(frozen)} frozen"
    return Outcome.PASSED, f"{updating} norms update in train(), none of them frozen"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


PROBE = Probe(name="updates", measure=measure)
