"""BN307: what is served against what was checked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from measured import EXACT, LARGE, NOISE, run_hits, swap

from bnaudit.measurement import Production, Repeat, Shift
from bnaudit.rules import load_rule

RULE = "bn307_optimizer_changes_prediction"


def production(
    found: Shift = LARGE, form: str = "onnxruntime's default optimizations", rounding: Shift | None = None
) -> Production:
    return Production(shift=found, form=form, rounding=rounding)


def test_a_difference_beyond_rounding_is_found() -> None:
    (hit,) = run_hits(RULE, production())
    assert (hit.layer, hit.value, hit.limit, hit.severity) == (None, 0.5, 1.5e-5, None)
    assert hit.message.startswith("onnxruntime's default optimizations and the plain computation differ by 0.5")


@pytest.mark.parametrize("found", [EXACT, NOISE])
def test_another_order_of_sums_is_silent(found: Shift) -> None:
    assert not run_hits(RULE, production(found))


@pytest.mark.parametrize(
    ("rounding", "found"),
    [(0.2, False), (0.125, False), (0.124, True), (0.0, True), (math.inf, True), (math.nan, True)],
)
def test_two_orders_of_sums_may_be_four_roundings_apart(rounding: float, found: bool) -> None:
    """LARGE is 0.5; the rounding is that of the plain computation against float64."""
    plain = Shift(exact=rounding == 0.0, difference=rounding, scale=2.0, epsilons=1e6, dtype="float32")
    assert bool(run_hits(RULE, production(rounding=plain))) is found


def test_another_shape_in_float64_is_no_rounding() -> None:
    plain = Shift(exact=False, difference=0.5, scale=2.0, epsilons=1e6, shapes="[16] and [1]")
    assert run_hits(RULE, production(rounding=plain))


def test_a_random_model_draws_anew() -> None:
    assert not run_hits(RULE, production(), Repeat(in_a_row=LARGE, restored=LARGE))
    assert not run_hits(RULE, production(), swap(other=EXACT, scaled=EXACT, leaks=False, seeded=True))


def test_it_decides_no_verdict() -> None:
    assert load_rule(RULE).question is None


def test_the_page_is_arithmetic() -> None:
    assert 64 * float(np.finfo(np.float32).eps) == pytest.approx(7.6e-6, abs=5e-8)
