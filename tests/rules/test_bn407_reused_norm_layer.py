"""BN407: one layer, several populations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from measured import run_hits

from bnaudit.measurement import ReusedNorm
from bnaudit.results import Severity

RULE = "bn407_reused_norm_layer"


def reused(**fields: Any) -> ReusedNorm:
    settings: dict[str, Any] = {
        "layer": "bn1",
        "calls": 2,
        "mean_difference": 0.1,
        "mean_error": 0.05,
        "variance_ratio": 1.1,
        "variance_error": 0.1,
        "samples": 16,
        "synthetic": False,
    }
    return ReusedNorm(**{**settings, **fields})


def severity(**fields: Any) -> Severity | None:
    (hit,) = run_hits(RULE, reused(**fields))
    assert hit.layer == "bn1"
    return hit.severity


def test_populations_of_different_means_are_a_warning() -> None:
    (hit,) = run_hits(RULE, reused(mean_difference=1.0))
    assert (hit.severity, hit.value, hit.limit) == (Severity.WARNING, 1.0, 0.5)
    assert hit.message == (
        "it runs 2 times per forward, on inputs whose means differ by 1 sd and whose variances by a factor 1.1"
    )


@pytest.mark.parametrize("ratio", [3.0, 1 / 3])
def test_populations_of_different_variances_are_a_warning(ratio: float) -> None:
    assert severity(variance_ratio=ratio) is Severity.WARNING


def test_the_variance_is_the_number_where_it_decides() -> None:
    (hit,) = run_hits(RULE, reused(variance_ratio=3.0))
    assert (hit.value, hit.limit) == (3.0, 2.0)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mean_difference": 0.5},
        {"mean_difference": 0.7, "mean_error": 0.2},
        {"variance_ratio": 2.0},
        {"variance_ratio": 3.0, "variance_error": 0.3},
        {"variance_ratio": 3.0, "variance_error": None},
        {"mean_difference": 3.0, "synthetic": True},
    ],
)
def test_smaller_unproved_and_synthetic_differences_are_notes(fields: dict[str, Any]) -> None:
    assert severity(**fields) is Severity.NOTE


def test_a_layer_that_runs_once_is_silent() -> None:
    assert not run_hits(RULE, reused(calls=1, mean_difference=9.0))


def test_a_ratio_of_zero_breaks_nothing() -> None:
    assert severity(variance_ratio=0.0) is Severity.WARNING


def test_the_page_is_what_torch_does() -> None:
    norm = torch.nn.BatchNorm1d(1, affine=False)
    unit = torch.tensor([[-1.0], [1.0]]) * 0.5**0.5
    assert unit.var().item() == pytest.approx(1.0)
    for _ in range(200):
        norm(unit)
        norm(unit + 4)
    assert norm.running_mean.item() == pytest.approx(2.1, abs=0.05)
    assert norm.running_var.item() == pytest.approx(1.0)
    assert norm.eval()(torch.zeros(1, 1)).item() == pytest.approx(-2.0, abs=0.15)


@pytest.mark.parametrize(
    ("difference", "ratio", "value", "limit"),
    [
        (0.1, 1 / 3, 0.333, 2.0),
        (0.1, 0.0, 0.0, 2.0),
        (0.5, 3.0, 3.0, 2.0),
        (0.6, 3.0, 0.6, 0.5),
        (0.1, 2.0, 0.1, 0.5),
        (0.1, 0.5, 0.1, 0.5),
        (0.1, 1.1, 0.1, 0.5),
    ],
)
def test_the_number_is_of_what_is_beyond_its_limit(difference: float, ratio: float, value: float, limit: float) -> None:
    (hit,) = run_hits(RULE, reused(mean_difference=difference, variance_ratio=ratio))
    assert (hit.value, hit.limit) == (value, limit)


@pytest.mark.parametrize(("ratio", "limit", "apart"), [(0.9, 2.0, False), (1.07, 1.05, True), (1.04, 1.05, False)])
def test_a_ratio_near_1_is_held_against_its_limit_either_way(ratio: float, limit: float, apart: bool) -> None:
    found = reused(variance_ratio=ratio, variance_error=0.001)
    (hit,) = run_hits(RULE, found, limits={"variance_ratio": limit})
    assert hit.severity is (Severity.WARNING if apart else Severity.NOTE)


@pytest.mark.parametrize(("difference", "apart"), [(0.82, True), (0.78, False)])
def test_four_errors_are_the_border(difference: float, apart: bool) -> None:
    expected = Severity.WARNING if apart else Severity.NOTE
    assert severity(mean_difference=difference, mean_error=0.2) is expected
