"""BN307: what is served against what was checked."""

from __future__ import annotations

import numpy as np
import pytest
from measured import EXACT, LARGE, NOISE, run_hits, swap

from bnaudit.measurement import Production, Repeat, Shift
from bnaudit.rules import load_rule

RULE = "bn307_optimizer_changes_prediction"


def production(found: Shift = LARGE, form: str = "onnxruntime's default optimizations") -> Production:
    return Production(shift=found, form=form)


def test_a_difference_beyond_rounding_is_found() -> None:
    (hit,) = run_hits(RULE, production())
    assert (hit.layer, hit.value, hit.limit, hit.severity) == (None, 0.5, 1.5e-5, None)
    assert hit.message.startswith("onnxruntime's default optimizations and the plain computation differ by 0.5")


@pytest.mark.parametrize("found", [EXACT, NOISE])
def test_another_order_of_sums_is_silent(found: Shift) -> None:
    assert not run_hits(RULE, production(found))


def test_a_random_model_draws_anew() -> None:
    assert not run_hits(RULE, production(), Repeat(in_a_row=LARGE, restored=LARGE))
    assert not run_hits(RULE, production(), swap(other=EXACT, scaled=EXACT, leaks=False, seeded=True))


def test_it_decides_no_verdict() -> None:
    assert load_rule(RULE).question is None


def test_the_page_is_arithmetic() -> None:
    assert 64 * float(np.finfo(np.float32).eps) == pytest.approx(7.6e-6, abs=5e-8)
