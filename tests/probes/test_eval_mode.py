"""What still uses the batch, drops or learns after eval()."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import FakeFeed, Net, measured

from bnaudit.measurement import Answer, EvalDropout, EvalNorm, StateInEval
from bnaudit.results import Outcome


def found(kind: type, **given: Any) -> tuple[list[Any], Answer]:
    everything = measured("eval_mode", **given)
    return [entry for entry in everything if isinstance(entry, kind)], everything[-1]


def test_a_healthy_model_passes() -> None:
    everything = measured("eval_mode")
    assert [type(entry) for entry in everything] == [Answer] and everything[0].outcome is Outcome.PASSED


def test_a_norm_that_mixes_is_proved_by_the_swap() -> None:
    (norm,), answer = found(EvalNorm, net=Net(leaky=frozenset({"two"})))
    assert (norm.layer, norm.mixes, norm.by_configuration, norm.updates) == ("two", True, False, True)
    assert answer.outcome is Outcome.FAILED


def test_a_norm_without_statistics_uses_the_batch_by_configuration() -> None:
    net = Net(leaky=frozenset({"two"}), by_configuration=frozenset({"two"}))
    (norm,), answer = found(EvalNorm, net=net)
    assert (
        norm.by_configuration and norm.mixes and answer.outcome is Outcome.PASSED and "configuration" in answer.reason
    )


def test_it_is_open_whether_a_norm_mixes_when_companions_are_equal() -> None:
    (norm,), answer = found(EvalNorm, net=Net(leaky=frozenset({"two"})), feed=FakeFeed(same=True))
    assert norm.mixes is None and answer.outcome is Outcome.INCONCLUSIVE


def test_dropout_is_counted_by_its_place() -> None:
    (drop,), answer = found(EvalDropout, net=Net(random=True, drops=True))
    assert (drop.call.place.module, drop.calls) == ("drop", 1) and answer.outcome is Outcome.FAILED
    assert not found(EvalDropout, net=Net(random=True))[0], "a model that samples drops nothing"


@pytest.mark.parametrize(
    ("state", "learns", "outcome"), [("cache", False, Outcome.PASSED), ("average", True, Outcome.FAILED)]
)
def test_a_cache_is_told_from_state_that_learns(state: str, learns: bool, outcome: Outcome) -> None:
    (change,), answer = found(StateInEval, net=Net(state=state))
    assert (change.layer, change.depends_on_data, answer.outcome) == ("one", learns, outcome)


def test_norm_layers_without_any_operator_seen_are_not_checked() -> None:
    _, answer = found(EvalNorm, net=Net(unseen=True))
    assert answer.outcome is Outcome.NOT_CHECKED and "2 norm layers" in answer.reason
