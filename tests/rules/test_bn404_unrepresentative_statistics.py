"""BN404: stored statistics against what a layer receives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import batch_norm, description, part
from measured import eval_norm, run_hits, statistics

from bnaudit.measurement import ReusedNorm
from bnaudit.results import Severity

RULE = "bn404_unrepresentative_statistics"


def test_a_mean_that_is_off_is_found_at_its_layer_alone() -> None:
    (hit,) = run_hits(RULE, statistics("bn0", 0), statistics("bn1", 1, mean_shift=1.0), statistics("bn2", 2))
    assert (hit.layer, hit.severity) == ("bn1", Severity.WARNING)
    assert (hit.value, hit.limit, hit.channels) == (1.0, 0.5, (3, 1))
    assert hit.message == "what it receives is not what is stored: mean off by 1 stored sd (standard error 0.02)"
    assert "update_bn" in hit.advice


@pytest.mark.parametrize("ratio", [4.0, 0.25])
def test_a_variance_that_is_off_either_way_is_found(ratio: float) -> None:
    found = statistics(ratio=ratio)
    (hit,) = run_hits(RULE, found)
    assert (hit.value, hit.limit) == (ratio, 2.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"mean_shift": 0.5},
        {"mean_shift": 0.7, "mean_error": 0.2},
        {"ratio": 1.99},
        {"ratio": 3.0, "log_variance_error": 0.3},
        {"mean_shift": math.nan, "ratio": 1.0},
        {"worst_shift": 30.0},
        {"live": 0, "mean_shift": 9.0, "ratio": 9.0},
    ],
)
def test_near_misses_are_silent(fields: dict[str, float]) -> None:
    assert not run_hits(RULE, statistics(**fields))


def test_four_errors_are_the_border() -> None:
    assert run_hits(RULE, statistics(mean_shift=0.801, mean_error=0.2))
    assert not run_hits(RULE, statistics(mean_shift=0.8, mean_error=0.2))


def test_eight_samples_decide_on_the_mean_and_fewer_leave_it_open() -> None:
    (hit,) = run_hits(RULE, statistics(mean_shift=1.0, samples=8))
    assert hit.severity is Severity.WARNING
    (hit,) = run_hits(RULE, statistics(mean_shift=1.0, samples=7))
    assert hit.severity is Severity.NOTE
    assert hit.undecided


def test_sixteen_samples_decide_on_the_variance_and_fewer_leave_it_open() -> None:
    (hit,) = run_hits(RULE, statistics(ratio=4.0, samples=15))
    assert hit.severity is Severity.NOTE
    assert hit.undecided
    (hit,) = run_hits(RULE, statistics(ratio=4.0, samples=15, mean_shift=1.0))
    assert hit.severity is Severity.WARNING
    assert not hit.undecided
    (hit,) = run_hits(RULE, statistics(ratio=4.0, log_variance_error=None, samples=2))
    assert hit.undecided


def test_few_samples_of_a_healthy_layer_leave_nothing_open() -> None:
    assert not run_hits(RULE, statistics(samples=2, log_variance_error=None))


def test_synthetic_inputs_are_no_evidence() -> None:
    (hit,) = run_hits(RULE, statistics(mean_shift=3.0, synthetic=True))
    assert (hit.severity, hit.undecided) == (Severity.NOTE, "")
    assert "--inputs" in hit.advice
    assert not run_hits(RULE, statistics(mean_shift=3.0, synthetic=True, samples=4))


def test_the_first_layer_alone_means_that_the_input_moved() -> None:
    (hit,) = run_hits(RULE, statistics("bn0", 0, mean_shift=1.0), statistics("bn1", 1))
    assert hit.message.endswith("so the input distribution moved")
    both = run_hits(RULE, statistics("bn0", 0, mean_shift=1.0), statistics("bn1", 1, mean_shift=1.0))
    assert not any("input distribution" in hit.message for hit in both)
    (only,) = run_hits(RULE, statistics("bn0", 0, mean_shift=1.0))
    assert "input distribution" not in only.message


def test_a_layer_for_several_populations_is_told_by_its_own_rule() -> None:
    reused = ReusedNorm(
        layer="bn1",
        calls=2,
        mean_difference=2.0,
        mean_error=0.1,
        variance_ratio=1.0,
        variance_error=0.1,
        samples=16,
        synthetic=False,
    )
    assert not run_hits(RULE, statistics("bn1", mean_shift=1.0), reused)


@pytest.mark.parametrize("layer", ["bn1", None])
def test_statistics_that_eval_mode_does_not_use_are_silent(layer: str | None) -> None:
    assert not run_hits(RULE, statistics("bn1", mean_shift=1.0), eval_norm("bn1", layer))
    assert run_hits(RULE, statistics("bn1", mean_shift=1.0), eval_norm("bn2", layer and "bn2"))


def test_limits_are_settings() -> None:
    assert not run_hits(RULE, statistics(mean_shift=1.0), limits={"mean_shift": 1.5})
    assert run_hits(RULE, statistics(mean_shift=0.2), limits={"mean_shift": 0.1})


def test_the_page_is_arithmetic() -> None:
    assert (4.4 - 2) / np.sqrt(4) == pytest.approx(1.2)
    assert 0.8 / np.sqrt(16) / np.sqrt(4) == pytest.approx(0.1)
    assert abs(np.log(1 / 4)) == pytest.approx(1.386, abs=5e-4)
    (hit,) = run_hits(RULE, statistics(mean_shift=1.2, mean_error=0.1, ratio=1 / 4))
    assert "mean off by 1.2 stored sd (standard error 0.1), variance off by a factor 0.25" in hit.message


def test_synthetic_inputs_say_nothing_of_the_inputs_distribution() -> None:
    (hit,) = run_hits(RULE, statistics("bn0", 0, mean_shift=3.0, synthetic=True), statistics("bn1", 1, synthetic=True))
    assert "input distribution" not in hit.message


@pytest.mark.parametrize(
    ("fields", "value", "limit"),
    [
        ({"mean_shift": 1.0, "samples": 7}, 1.0, 0.5),
        ({"ratio": 4.0, "samples": 7}, 4.0, 2.0),
        ({"mean_shift": 1.0, "ratio": 4.0, "samples": 7}, 1.0, 0.5),
    ],
)
def test_what_looks_off_is_told_with_its_own_number(fields: dict[str, float], value: float, limit: float) -> None:
    (hit,) = run_hits(RULE, statistics(**fields))
    assert (hit.value, hit.limit, hit.channels) == (value, limit, (3, 1)) and hit.undecided


def test_absorbed_statistics_are_held_against_no_input() -> None:
    """Caffe2's frozen norms store mean 0 and variance 1, with the true ones in weight and bias."""
    absorbed = [batch_norm(name, mean=(0, 0, 0), var=(1, 1, 1), counter=None) for name in ("bn1", "bn2")]
    off = (statistics("bn1", 0, mean_shift=2.0), statistics("bn2", 1, ratio=9.0))
    (hit,) = run_hits(RULE, *off, subject=description(part(absorbed)))
    assert (hit.layer, hit.severity, hit.value) == (None, Severity.NOTE, 2)
    assert hit.undecided and "update_bn" not in hit.advice
    averaged = description(part(absorbed, name="ema"))
    (hit,) = run_hits(RULE, *off, subject=averaged, part="ema")
    assert hit.part == "ema"
    assert not run_hits(RULE, statistics("bn1"), statistics("bn2"), subject=description(part(absorbed)))
    counted = [batch_norm(name, mean=(0, 0, 0), var=(1, 1, 1), counter=7) for name in ("bn1", "bn2")]
    assert len(run_hits(RULE, *off, subject=description(part(counted)))) == 2
