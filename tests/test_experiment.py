"""One plan: each run once, counted, in order, within the budget."""

from __future__ import annotations

from typing import Any, cast

import pytest
from fake_runs import FakeFeed, FakeSession, Net, perfect

from bnaudit.experiment import MOST_FORWARDS, BudgetSpent, Experiment
from bnaudit.feeds import Feed
from bnaudit.probes import probes
from bnaudit.run_options import RunOptions
from bnaudit.session import Mode, RunError, Session, Watch

EVERY_MODE = (Mode.INFERENCE, Mode.TRAINING_NORMS, Mode.AS_SAVED)


def everything(net: Net | None = None, feed: FakeFeed | None = None, **given: Any) -> tuple[Experiment, FakeSession]:
    session = FakeSession(net, **given)
    experiment = Experiment(cast(Session, session), cast(Feed, feed or FakeFeed()))
    for probe in probes():
        list(probe.measure(experiment))
    return experiment, session


def test_a_healthy_model_takes_seven_forwards_and_none_beyond() -> None:
    experiment, session = everything()
    assert (experiment.forwards, experiment.extra_forwards, len(session.runs)) == (7, 0, 7)
    assert experiment.remarks == []


def test_the_plan_has_at_most_eight_forwards() -> None:
    experiment, session = everything(modes=EVERY_MODE)
    assert (experiment.forwards, experiment.extra_forwards, len(session.runs)) == (8, 0, 8)
    crowded, _ = everything(modes=EVERY_MODE, production=0.0, feed=FakeFeed(lengths=True))
    assert crowded.forwards == MOST_FORWARDS and crowded.extra_forwards == 2


def test_a_model_without_norms_ends_early() -> None:
    experiment, session = everything(norms=False)
    assert experiment.forwards == 6
    assert not any(run["mode"] is Mode.TRAINING_NORMS for run in session.runs)


def test_a_batch_of_one_has_nothing_to_exchange() -> None:
    experiment, session = everything(feed=FakeFeed(1), fixed_batch=1)
    assert experiment.forwards == 3 == len(session.runs)


@pytest.mark.parametrize(
    "net",
    [
        Net(leaky=frozenset({"one", "two"})),
        Net(leaky=frozenset({"one"}), random=True),
        Net(batch_spread=0.5, history=True),
        Net(noise=3.0, wrong_at_one=1.0),
        Net(stored=perfect({"two": (1.0, 1.0)}), raises_at_one=True),
        Net(leaky=frozenset({"one"}), random=True, history=True, by_position=0.1),
    ],
    ids=["leak", "random leak", "history", "noise and size", "statistics", "all at once"],
)
def test_at_most_eight_more_locate_and_confirm(net: Net) -> None:
    experiment, session = everything(net, modes=EVERY_MODE)
    assert experiment.forwards <= 8 and 0 < experiment.extra_forwards <= 8
    assert len(session.runs) == experiment.forwards + experiment.extra_forwards


def test_only_the_repeat_starts_from_a_state_that_was_not_restored_and_directly_after_the_first() -> None:
    _, session = everything()
    assert [run["restored"] for run in session.runs[:2]] == [True, False]
    assert all(run["restored"] for run in session.runs[2:])


def test_a_run_that_raises_is_not_made_again() -> None:
    session = FakeSession(Net(raises_at_one=True))
    experiment = Experiment(cast(Session, session), cast(Feed, FakeFeed()))
    for _ in range(2):
        with pytest.raises(RunError, match="more than 1 value"):
            experiment._planned("one row", experiment.feed.alone)
    assert len(session.runs) == 1 == experiment.forwards


def test_every_run_is_made_once() -> None:
    experiment, session = everything()
    assert experiment.base is experiment.base and experiment.training is experiment.training
    assert len(session.runs) == 7


def test_training_runs_record_moments_and_locating_runs_rows() -> None:
    _, session = everything(Net(leaky=frozenset({"one"})))
    assert {run["watch"] for run in session.runs if run["mode"] is Mode.TRAINING_NORMS} == {Watch.MOMENTS}
    rows = [run for run in session.runs if run["watch"] is Watch.ROWS]
    assert len(rows) == 2 and rows[0]["hold"] == rows[1]["hold"] and len(rows[0]["hold"]) == 1


def test_seeds_are_set_for_the_deciding_runs_of_a_model_that_draws_only() -> None:
    _, plain = everything()
    assert {run["seed"] for run in plain.runs} == {None}
    _, drawing = everything(Net(random=True))
    assert [run["seed"] for run in drawing.runs[:3]].count(None) >= 2
    assert {run["seed"] for run in drawing.runs if run["mode"] is Mode.TRAINING_NORMS} == {0}


def test_no_forward_begins_after_the_budget() -> None:
    times = iter(range(100))
    session = FakeSession()
    options = RunOptions(budget=2.5)
    experiment = Experiment(cast(Session, session), cast(Feed, FakeFeed()), options=options, clock=lambda: next(times))
    _ = experiment.base
    with pytest.raises(BudgetSpent, match=r"budget of 2.5 s was spent after 2 forwards .*raise --budget"):
        _ = experiment.swapped
    assert len(session.runs) == 2 == experiment.forwards


def test_progress_is_told_before_each_forward() -> None:
    told: list[tuple[str, int, int]] = []

    class Heard:
        def forward(self, name: str, number: int, expected: int) -> None:
            told.append((name, number, expected))

    experiment = Experiment(cast(Session, FakeSession()), cast(Feed, FakeFeed()), progress=cast(Any, Heard()))
    for probe in probes():
        list(probe.measure(experiment))
    assert [number for _, number, _ in told] == list(range(1, 8))
    assert {expected for _, _, expected in told} == {7} and len({name for name, _, _ in told}) == 7


def test_a_ninth_further_forward_is_refused() -> None:
    experiment = Experiment(cast(Session, FakeSession()), cast(Feed, FakeFeed()))
    for _ in range(8):
        experiment.extra("more", experiment.feed.base)
    with pytest.raises(BudgetSpent, match="8 further forwards were used"):
        experiment.extra("more", experiment.feed.base)


def test_a_budget_says_in_words_how_far_it_went() -> None:
    ticks = iter((0.0, 0.0, 9.0))
    short = Experiment(FakeSession(), FakeFeed(), options=RunOptions(budget=1.0), clock=lambda: next(ticks))
    with pytest.raises(BudgetSpent, match=r"the budget of 1 s was spent after 1 forward \("):
        _ = short.base


@pytest.mark.parametrize(("size", "watch"), [(16, Watch.MOMENTS), (4, Watch.NOTHING)])
def test_samples_too_few_to_decide_are_run_for_their_outputs_alone(size: int, watch: Watch) -> None:
    experiment, session = everything(feed=FakeFeed(size))
    assert (experiment.feed.samples >= 8) is (size == 16)
    training = [run["watch"] for run in session.runs if run["mode"] is Mode.TRAINING_NORMS]
    assert training == [Watch.MOMENTS, watch]
