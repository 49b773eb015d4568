"""As saved, in production's form, after train(), and with companions of another length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import batch_norm, part
from fake_runs import FakeFeed, Net, experiment, measured

from bnaudit.description import Carrier
from bnaudit.measurement import Answer, AsSaved, Padding, Production, Trained
from bnaudit.probes.padding import _cut
from bnaudit.results import Outcome, Question
from bnaudit.session import Mode, Output, Trace


def test_the_saved_mode_is_run_only_where_it_is_another_one() -> None:
    assert measured("as_saved") == []
    (found,) = measured("as_saved", modes=(Mode.INFERENCE, Mode.AS_SAVED))
    assert isinstance(found, AsSaved) and not found.shift.exact and not found.random


def test_productions_form_is_compared_where_there_is_one() -> None:
    assert measured("production") == []
    (same,) = measured("production", production=0.0)
    (other,) = measured("production", production=0.5)
    assert isinstance(same, Production) and same.shift.exact
    assert other.shift.difference == pytest.approx(0.5, rel=1e-3) and other.form == "torch.compile"


def test_a_difference_in_productions_form_is_held_against_what_rounding_does() -> None:
    (same,) = measured("production", production=0.0)
    (other,) = measured("production", production=0.5)
    (alone,) = measured("production", production=0.5, doubles=False)
    assert same.rounding is None and alone.rounding is None
    assert other.rounding is not None
    assert 0.0 < other.rounding.difference < 1e-4


def trained(**fields: Any) -> Any:
    layers = [batch_norm("bn", training=True, tracks_statistics=True, momentum=0.1, **fields)]
    return part(layers, carrier=Carrier.MODULE, trainable=2)


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"requires_grad": True}, Outcome.PASSED, "1 norm updates in train(), and is not frozen"),
        ({"requires_grad": False}, Outcome.FAILED, "the norm that updates in train() is frozen"),
    ],
    ids=["trains", "frozen"],
)
def test_a_frozen_norm_that_updates_fails(fields: Any, outcome: Outcome, reason: str) -> None:
    found, answer = measured("updates", trained=trained(**fields))
    assert isinstance(found, Trained) and isinstance(answer, Answer)
    assert (answer.outcome, answer.reason) == (outcome, reason)


def test_a_frozen_norm_in_eval_passes_and_what_has_no_train_is_left_to_the_file() -> None:
    layers = [batch_norm("bn", training=False, tracks_statistics=True, requires_grad=False)]
    _, answer = measured("updates", trained=part(layers, carrier=Carrier.MODULE, trainable=2))
    assert answer.outcome is Outcome.PASSED
    assert measured("updates") == []


def test_companions_of_another_length_are_compared_where_they_can_be_made() -> None:
    assert measured("padding") == []
    (found,) = measured("padding", feed=FakeFeed(lengths=True))
    assert isinstance(found, Padding) and found.shift.exact and found.lengths == (9, 12)
    (leak,) = measured("padding", Net(batch_spread=0.2), FakeFeed(lengths=True))
    assert not leak.shift.exact


def norm(name: str, **fields: Any) -> Any:
    return batch_norm(name, **{"training": True, "tracks_statistics": True, "momentum": 0.1, **fields})


@pytest.mark.parametrize(
    ("frozen", "trainable", "outcome", "reason"),
    [
        ((False, False), 2, Outcome.PASSED, "2 norms update in train(), none of them frozen"),
        ((True, False), 2, Outcome.FAILED, "1 of 2 norms that update in train() is frozen"),
        ((True, True), 2, Outcome.FAILED, "2 of 2 norms that update in train() are frozen"),
        ((True, True), 0, Outcome.PASSED, "no parameter trains"),
    ],
)
def test_the_answer_counts_the_frozen_ones(
    frozen: tuple[bool, ...], trainable: int, outcome: Outcome, reason: str
) -> None:
    layers = [norm(f"bn{i}", requires_grad=not each) for i, each in enumerate(frozen)]
    given = part(layers, carrier=Carrier.MODULE, trainable=trainable)
    _, answer = measured("updates", trained=given)
    assert (answer.question, answer.outcome, answer.reason) == (Question.FROZEN, outcome, reason)


def test_a_model_that_draws_is_not_given_other_lengths() -> None:
    assert measured("padding", Net(random=True), FakeFeed(lengths=True)) == []
    run = experiment(feed=FakeFeed(lengths=True))
    assert not run.random


def outputs(*shapes: tuple[int, ...]) -> Trace:
    made = tuple(Output(name="", values=np.arange(np.prod(shape)).reshape(shape), dtype="float32") for shape in shapes)
    return Trace(outputs=made)


def test_outputs_are_cut_to_the_length_that_they_had() -> None:
    cut = _cut(outputs((2, 5), (2, 5), (3,)), outputs((2, 3), (2,)))
    assert [output.values.tolist() for output in cut.outputs] == [
        [[0, 1, 2], [5, 6, 7]],
        [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]],
    ], "what has another number of axes stays as it is, and what was not there before is left out"


def test_a_difference_beyond_rounding_is_held_against_float64_where_that_can_be_run() -> None:
    (near,) = measured("production", production=1e-7)
    assert not near.shift.exact and near.rounding is None
    (far,) = measured("production", production=0.5)
    assert far.rounding is not None and far.rounding.difference < 1e-4
    (short,) = measured("production", production=0.5, doubles=False)
    assert short.rounding is None
    (endless,) = measured("production", production=float("inf"))
    assert endless.shift.difference == float("inf") and endless.rounding is None


def test_a_model_that_draws_and_a_budget_that_is_spent_have_no_float64() -> None:
    from bnaudit.probes.production import PROBE

    (found,) = measured("production", Net(random=True), production=0.5)
    assert found.rounding is None
    run = experiment(production=0.5)
    while run.extras_left:
        run.extra("another", run.feed.base)
    (found,) = PROBE.measure(run)
    assert not found.shift.exact and found.rounding is None
