"""BN305: equal rows, unequal answers."""

from __future__ import annotations

import pytest
import torch
from measured import EXACT, LARGE, NOISE, mixing, run_hits, shift, swap

from bnaudit.measurement import IdenticalRows, Repeat, Shift

RULE = "bn305_identical_rows_differ"
AMPLIFIED = shift(1e-4)
"""420 eps: beyond noise, within what deep nets make of rounding."""
ROUNDING_IN_DOUBLE = shift(1e-13, epsilons=1e-13 / (2 * 2.0**-52))


def test_equal_rows_that_differ_are_found() -> None:
    (hit,) = run_hits(RULE, IdenticalRows(shift=LARGE))
    assert (hit.layer, hit.value, hit.limit) == (None, 0.5, 1.5e-5)


@pytest.mark.parametrize("found", [EXACT, NOISE])
def test_rounding_is_silent(found: Shift) -> None:
    assert not run_hits(RULE, IdenticalRows(shift=found))


def test_rounding_that_a_deep_net_amplifies_shrinks_in_float64() -> None:
    assert not run_hits(RULE, IdenticalRows(shift=AMPLIFIED, double=EXACT))
    assert len(run_hits(RULE, IdenticalRows(shift=AMPLIFIED))) == 1
    assert len(run_hits(RULE, IdenticalRows(shift=AMPLIFIED, double=AMPLIFIED))) == 1


def test_a_kernel_may_be_at_fault_in_one_dtype_only() -> None:
    assert len(run_hits(RULE, IdenticalRows(shift=LARGE, double=EXACT))) == 1


def test_rows_that_other_rows_change_are_told_by_their_own_rule() -> None:
    assert not run_hits(RULE, IdenticalRows(shift=LARGE), swap(mixing()))


def test_a_random_model_draws_for_each_row() -> None:
    assert not run_hits(RULE, IdenticalRows(shift=LARGE), Repeat(in_a_row=LARGE, restored=LARGE))
    exact = {"other": EXACT, "scaled": EXACT, "leaks": False}
    assert not run_hits(RULE, IdenticalRows(shift=LARGE), swap(**exact, seeded=True))
    assert len(run_hits(RULE, IdenticalRows(shift=LARGE), swap(**exact))) == 1


def test_the_page_is_what_torch_does() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("positions", torch.arange(8.0)[:, None])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.positions[: len(x)]

    assert Net()(torch.tensor([[5.0], [5.0]])).flatten().tolist() == [5.0, 6.0]


@pytest.mark.parametrize(("epsilons", "found"), [(6350.0, 0), (6450.0, 1)])
def test_a_hundred_times_the_noise_is_more_than_any_net_makes_of_rounding(epsilons: float, found: int) -> None:
    apart = shift(1e-3, epsilons=epsilons)
    assert len(run_hits(RULE, IdenticalRows(shift=apart, double=EXACT))) == found
