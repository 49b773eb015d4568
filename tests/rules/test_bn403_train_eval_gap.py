"""BN403: more between the modes than companions explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import batch_norm, description, part
from measured import eval_norm, run_hits, statistics

from bnaudit.measurement import Gap
from bnaudit.results import Severity

RULE = "bn403_train_eval_gap"
GUILTY = statistics("bn1", mean_shift=1.0)


def gap(**fields: Any) -> Gap:
    settings: dict[str, Any] = {
        "systematic": 0.6,
        "noise": 0.2,
        "plain": 0.65,
        "bessel": None,
        "samples": 16,
        "anchors": 4,
        "flips": 0,
        "companion_flips": 0,
        "decisions": 4,
        "synthetic": False,
    }
    return Gap(**{**settings, **fields})


def test_a_systematic_gap_with_a_guilty_layer_is_a_warning() -> None:
    (hit,) = run_hits(RULE, gap(), statistics("bn0"), GUILTY)
    assert (hit.layer, hit.severity, hit.value, hit.limit) == (None, Severity.WARNING, 0.6, 0.2)
    assert hit.message.endswith("companions explain 0.2 (the statistics of bn1 are off)")


@pytest.mark.parametrize(("systematic", "noise"), [(0.2, 0.2), (0.1, 0.5), (0.0, 0.0), (float("nan"), 0.1)])
def test_what_companions_explain_is_silent(systematic: float, noise: float) -> None:
    assert not run_hits(RULE, gap(systematic=systematic, noise=noise), GUILTY)


def test_without_a_guilty_layer_it_is_silent() -> None:
    assert not run_hits(RULE, gap(), statistics("bn0"), statistics("bn1"))
    assert not run_hits(RULE, gap())


def test_a_layer_whose_statistics_are_not_used_explains_nothing() -> None:
    assert not run_hits(RULE, gap(), GUILTY, eval_norm("bn1"))


def test_absorbed_statistics_explain_nothing() -> None:
    absorbed = [batch_norm(name, mean=(0, 0, 0), var=(1, 1, 1), counter=None) for name in ("bn0", "bn1")]
    assert not run_hits(RULE, gap(), GUILTY, subject=description(part(absorbed)))


def test_fewer_than_sixteen_samples_leave_it_open_when_a_layer_looks_off() -> None:
    (hit,) = run_hits(RULE, gap(samples=15), statistics("bn1", mean_shift=1.0, samples=15))
    assert hit.severity is Severity.NOTE
    assert hit.undecided
    assert not run_hits(RULE, gap(samples=15), statistics("bn1", samples=15))


def test_synthetic_inputs_are_no_evidence() -> None:
    (hit,) = run_hits(RULE, gap(synthetic=True), GUILTY)
    assert (hit.severity, hit.undecided) == (Severity.NOTE, "")
    assert not run_hits(RULE, gap(synthetic=True, samples=8), GUILTY)


@pytest.mark.parametrize(
    ("anchors", "flips", "between", "severity"),
    [
        (64, 6, 2, Severity.ERROR),  # 4 / 64 = 6.2 %
        (64, 5, 2, Severity.WARNING),  # 3 / 64 = 4.7 %
        (63, 20, 0, Severity.WARNING),
        (100, 6, 1, Severity.WARNING),  # exactly 5 %
    ],
)
def test_flipped_decisions_make_it_an_error(anchors: int, flips: int, between: int, severity: Severity) -> None:
    found = gap(anchors=anchors, decisions=anchors, flips=flips, companion_flips=between, samples=64)
    (hit,) = run_hits(RULE, found, GUILTY)
    assert hit.severity is severity
    assert f"{flips} of {anchors} decisions flip, {between} between the two sets" in hit.message


def test_the_part_of_the_unbiased_variance_is_told() -> None:
    (hit,) = run_hits(RULE, gap(bessel=0.0031), GUILTY)
    assert "the unbiased variance explains 0.0031" in hit.message


def test_the_page_is_arithmetic() -> None:
    e = np.zeros(2)
    scattered = np.array([0.3, -0.4]), np.array([0.4, 0.3])
    common = np.array([0.5, -0.4]), np.array([0.4, -0.5])
    assert (scattered[0] - e) @ (scattered[1] - e) == pytest.approx(0.0)
    assert np.sqrt((common[0] - e) @ (common[1] - e)) == pytest.approx(0.63, abs=5e-3)
    assert np.linalg.norm(common[0] - common[1]) / np.sqrt(2) == pytest.approx(0.10)
    assert [np.linalg.norm(t[0] - e) for t in (scattered, common)] == pytest.approx([0.5, 0.64], abs=5e-3)


STRICT = {"max_gap": 0.5}


def test_a_limit_of_the_users_own_needs_no_guilty_layer() -> None:
    (hit,) = run_hits(RULE, gap(systematic=0.6), statistics("bn0"), limits=STRICT)
    assert (hit.severity, hit.value, hit.limit, hit.undecided) == (Severity.WARNING, 0.6, 0.5, "")
    assert hit.message.endswith("companions explain 0.2; at most 0.5 is allowed")
    assert not run_hits(RULE, gap(systematic=0.5), statistics("bn0"), limits=STRICT)
    (usual,) = run_hits(RULE, gap(systematic=0.4), GUILTY, limits=STRICT)
    assert usual.limit == 0.2


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"synthetic": True}, "the inputs are synthetic"),
        ({"samples": 15}, "15 samples are too few to judge the gap"),
        ({"noise": 0.6}, "a gap above 0.5 that companions alone explain"),
    ],
)
def test_what_may_be_chance_leaves_the_users_limit_undecided(fields: dict[str, Any], why: str) -> None:
    (hit,) = run_hits(RULE, gap(**{"systematic": 0.6, **fields}), limits=STRICT)
    assert (hit.severity, hit.undecided) == (Severity.NOTE, why)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("a", "b", "c"), "(the statistics of a, b, c are off)"),
        (("a", "b", "c", "d"), "(the statistics of a, b, c, … are off)"),
        (("",), "(the statistics of the model itself are off)"),
    ],
)
def test_three_layers_are_named(names: tuple[str, ...], shown: str) -> None:
    (hit,) = run_hits(RULE, gap(), *(statistics(name, mean_shift=1.0) for name in names))
    assert hit.message.endswith(shown)


@pytest.mark.parametrize(("samples", "found"), [(15, 1), (16, 0), (17, 0)])
def test_a_layer_that_only_looks_off_leaves_it_open_below_sixteen_samples_alone(samples: int, found: int) -> None:
    looks_off = statistics("bn1", ratio=4.0, samples=15)
    hits = run_hits(RULE, gap(samples=samples), looks_off)
    assert [bool(hit.undecided) for hit in hits] == [True] * found


def test_where_companions_explain_the_gap_few_samples_leave_nothing_open() -> None:
    assert not run_hits(RULE, gap(samples=15, systematic=0.1), statistics("bn1", ratio=4.0, samples=15))


def test_the_advice_is_by_what_is_known() -> None:
    (made,) = run_hits(RULE, gap(synthetic=True), GUILTY)
    (real,) = run_hits(RULE, gap(), GUILTY)
    assert "--inputs" in made.advice and real.advice.startswith("mend the statistics")
    (allowed,) = run_hits(RULE, gap(), limits=STRICT)
    (guilty,) = run_hits(RULE, gap(), GUILTY, limits=STRICT)
    assert allowed.advice != guilty.advice == real.advice


def test_flipped_decisions_make_a_gap_above_the_users_limit_an_error() -> None:
    flipping = gap(anchors=64, decisions=64, flips=6, companion_flips=2, samples=64)
    (hit,) = run_hits(RULE, flipping, limits=STRICT)
    assert hit.severity is Severity.ERROR
    (hit,) = run_hits(RULE, gap(samples=64), limits=STRICT)
    assert hit.severity is Severity.WARNING


@pytest.mark.parametrize(("anchors", "decisions"), [(64, 32), (32, 64)])
def test_sixty_four_anchors_have_to_decide(anchors: int, decisions: int) -> None:
    found = gap(anchors=anchors, decisions=decisions, flips=20, samples=64)
    (hit,) = run_hits(RULE, found, GUILTY)
    assert hit.severity is Severity.WARNING
