"""Size 1 against the full batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_runs import FakeFeed, Net, experiment, measured

from bnaudit.measurement import BatchSize, Shift
from bnaudit.probes.batch_size import PROBE, _lost_axis, _may_be_rounding
from bnaudit.session import Output, RunError


def test_a_healthy_model_is_compared_at_size_one_only() -> None:
    (found,) = measured("batch_size")
    assert found == BatchSize(one=found.one) and found.one is not None and found.one.exact


def test_a_special_case_of_size_one_is_told_from_sizes_two_and_three() -> None:
    (found,) = measured("batch_size", Net(wrong_at_one=0.5))
    assert found.one.difference == 0.5 and found.two.exact and found.three.exact


def test_a_model_that_raises_at_size_one_is_tried_at_two() -> None:
    (found,) = measured("batch_size", Net(raises_at_one=True))
    assert found.one is None and "more than 1 value" in found.raised and found.raises_at_two is False


def test_an_output_that_loses_its_batch_axis_is_told_and_still_compared() -> None:
    (found,) = measured("batch_size", Net(squeezes=True))
    assert found.lost_axis == "the output [16, 3] at size 16, [3] at size 1"
    assert found.one is not None and found.one.exact


def test_amplified_rounding_is_settled_in_float64() -> None:
    (found,) = measured("batch_size", Net(noise=2000.0))
    assert found.one is not None and found.one.dtype == "float64" and found.one.difference < 1e-12


def test_nothing_is_compared_for_a_fixed_batch_a_batch_of_one_or_a_model_that_draws() -> None:
    assert measured("batch_size", fixed_batch=16) == []
    assert measured("batch_size", feed=FakeFeed(1)) == []
    run = experiment(Net(random=True))
    from bnaudit.probes.batch_size import PROBE

    assert list(PROBE.measure(run)) == [] and any("batch sizes" in remark for remark in run.remarks)


def sizes(run: Any) -> list[int]:
    """Of the batches that the probe ran after the plan."""
    return [made["size"] for made in run.session.runs if made["size"] in (2, 3)]


def spent(run: Any) -> Any:
    """The same, with no further forward left."""
    while run.extras_left:
        run.extra("another", run.feed.base)
    return run


def refuse(*_: Any, **__: Any) -> None:
    raise RunError("ValueError: too few")


def test_sizes_two_and_three_are_run_and_a_special_case_needs_no_float64() -> None:
    run = experiment(Net(wrong_at_one=0.5))
    (found,) = PROBE.measure(run)
    assert sizes(run) == [2, 3] and found.one.dtype == "float32"
    assert all(made["dtype"] == "float32" for made in run.session.runs)


def test_of_two_samples_neither_two_nor_three_are_fewer() -> None:
    (found,) = measured("batch_size", Net(wrong_at_one=0.5), FakeFeed(2))
    assert not found.one.exact and found.two is found.three is None
    (found,) = measured("batch_size", Net(wrong_at_one=0.5), FakeFeed(3))
    assert found.two.exact and found.three is None


def test_where_companions_matter_anyway_no_other_size_is_tried() -> None:
    (found,) = measured("batch_size", Net(leaky=frozenset({"two"})))
    assert not found.one.exact and found.two is found.three is None


def test_a_small_difference_that_float64_keeps_is_told_as_it_is() -> None:
    (found,) = measured("batch_size", Net(wrong_at_one=1e-4))
    assert found.one.dtype == "float32" and found.one.difference == pytest.approx(1e-4, rel=0.1)


def test_without_float64_amplified_rounding_stays_a_difference() -> None:
    (found,) = measured("batch_size", Net(noise=2000.0), doubles=False)
    assert found.one.dtype == "float32" and not found.one.exact


@pytest.mark.parametrize(("epsilons", "may"), [(6399.0, True), (6401.0, False)])
def test_rounding_is_amplified_a_hundred_times_at_most(epsilons: float, may: bool) -> None:
    assert _may_be_rounding(Shift(exact=False, difference=1.0, epsilons=epsilons)) is may


def test_further_forwards_that_are_spent_or_refused_leave_the_other_sizes_out() -> None:
    (found,) = PROBE.measure(spent(experiment(Net(wrong_at_one=0.5))))
    assert found.one.difference == 0.5 and found.two is found.three is None
    run = experiment(Net(wrong_at_one=0.5))
    run.extra = refuse
    (found,) = PROBE.measure(run)
    assert found.two is found.three is None
    assert "a batch of 2 was not compared: ValueError: too few" in run.remarks


@pytest.mark.parametrize(("size", "raises"), [(2, None), (3, False), (4, False)])
def test_a_batch_of_two_is_tried_where_it_is_another_one(size: int, raises: bool | None) -> None:
    run = experiment(Net(raises_at_one=True), FakeFeed(size))
    (found,) = PROBE.measure(run)
    assert found.raises_at_two is raises
    assert sizes(run).count(2) == (1 if raises is False else 2)


def test_a_model_that_raises_at_two_as_well_is_told() -> None:
    run = experiment(Net(raises_at_one=True))
    run.extra = refuse
    (found,) = PROBE.measure(run)
    assert found.raises_at_two is True
    (found,) = PROBE.measure(spent(experiment(Net(raises_at_one=True))))
    assert found.raises_at_two is None


def outputs(*shapes: tuple[int, ...]) -> Any:
    return SimpleNamespace(outputs=tuple(Output(name="", values=np.zeros(s), dtype="float32") for s in shapes))


@pytest.mark.parametrize(
    ("full", "one", "axes", "lost"),
    [
        (((16, 3),), ((3,),), (0,), "the output [16, 3] at size 16, [3] at size 1"),
        (((16, 3),), ((1, 3),), (0,), ""),
        (((16, 3), (16, 2)), ((1, 3),), (0, 0), ""),
        (((7, 3),), ((3,),), (None,), ""),
    ],
)
def test_only_an_output_of_samples_can_lose_its_axis(full: Any, one: Any, axes: Any, lost: str) -> None:
    feed = SimpleNamespace(base=SimpleNamespace(size=16))
    run: Any = SimpleNamespace(base=outputs(*full), alone=outputs(*one), axes=axes, feed=feed)
    assert _lost_axis(run) == lost
