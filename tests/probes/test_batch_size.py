"""Size 1 against the full batch."""

from __future__ import annotations

from fake_runs import FakeFeed, Net, experiment, measured

from bnaudit.measurement import BatchSize


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
