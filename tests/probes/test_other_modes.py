"""As saved, in production's form, after train(), and with companions of another length."""

from __future__ import annotations

from typing import Any

import pytest
from builders import batch_norm, part
from fake_runs import FakeFeed, Net, measured

from bnaudit.description import Carrier
from bnaudit.measurement import Answer, AsSaved, Padding, Production, Trained
from bnaudit.results import Outcome
from bnaudit.session import Mode


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
