"""BN303: a batch of one is not like the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from measured import EXACT, LARGE, NOISE, mixing, norm_size, run_hits, swap

from bnaudit.measurement import BatchSize, IdenticalRows, Shift

RULE = "bn303_batch_size_special_case"
TOO_FEW = "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 8])."


def size(one: Shift | None = LARGE, **fields: Any) -> BatchSize:
    return BatchSize(one=one, **fields)


def test_a_batch_of_one_that_differs_is_found() -> None:
    (hit,) = run_hits(RULE, size())
    assert (hit.layer, hit.value, hit.limit) == (None, 0.5, 1.5e-5)
    assert hit.message == (
        "a batch of one differs by 0.5 (0.25 of the largest output), 3 of 4 decisions flip from larger ones"
    )


@pytest.mark.parametrize(
    ("two", "three", "ends"),
    [
        (NOISE, EXACT, "; size 2 and 3 does not"),
        (LARGE, NOISE, "; so do sizes 2"),
        (LARGE, LARGE, "; so do sizes 2 and 3"),
        (None, None, "from larger ones"),
    ],
)
def test_it_says_whether_one_is_the_only_exception(two: Shift | None, three: Shift | None, ends: str) -> None:
    (hit,) = run_hits(RULE, size(two=two, three=three))
    assert hit.message.endswith(ends)


@pytest.mark.parametrize("one", [EXACT, NOISE, None])
def test_rounding_is_silent(one: Shift | None) -> None:
    assert not run_hits(RULE, size(one))


def test_an_error_at_size_one_is_a_finding() -> None:
    (hit,) = run_hits(RULE, size(None, raised="the model raised IndexError: too many\nindices.", raises_at_two=False))
    assert hit.message == "a batch of one raises an error, one of two does not: IndexError: too many indices"
    (hit,) = run_hits(RULE, size(None, raised=TOO_FEW, raises_at_two=None))
    assert "Expected more than 1 value per channel" in hit.message


def test_a_model_that_takes_no_small_batch_is_not_to_be_padded_to_two() -> None:
    (one,) = run_hits(RULE, size(None, raised="RuntimeError: sizes", raises_at_two=False))
    (both,) = run_hits(RULE, size(None, raised="RuntimeError: sizes", raises_at_two=True))
    assert "batch of two" in one.advice
    assert "batch of two" not in both.advice and "baked in" in both.advice


def test_a_lost_axis_is_a_finding() -> None:
    (hit,) = run_hits(RULE, size(EXACT, lost_axis="the output [16, 8] at size 16, [8] at size 1"))
    assert hit.message.startswith("a batch of one loses its batch axis: the output [16, 8]")
    assert "squeeze" in hit.advice


def test_where_companions_matter_one_differs_for_that_reason() -> None:
    assert not run_hits(RULE, size(), swap(mixing()))
    assert not run_hits(RULE, size(None, raised=TOO_FEW), swap(mixing()))
    assert len(run_hits(RULE, size(None, raised="IndexError: other"), swap(mixing()))) == 1
    assert len(run_hits(RULE, size(), swap(other=EXACT, scaled=EXACT, leaks=False))) == 1


def test_an_answer_that_depends_on_the_row_is_told_by_its_own_rule() -> None:
    assert not run_hits(RULE, size(), IdenticalRows(shift=LARGE))
    assert len(run_hits(RULE, size(), IdenticalRows(shift=NOISE))) == 1


def test_a_norm_of_single_values_is_told_by_its_own_rule() -> None:
    norm = norm_size("gn", values=1, uses_batch=True, is_batch_norm=False)
    assert not run_hits(RULE, size(None, raised=TOO_FEW), norm)
    assert len(run_hits(RULE, size(None, raised="IndexError: other"), norm)) == 1


def test_the_error_of_an_instance_norm_of_one_place_is_told_by_the_norm() -> None:
    with pytest.raises(ValueError) as raised:
        torch.nn.functional.instance_norm(torch.ones(1, 4, 1))
    norm = norm_size("norm", values=1, uses_batch=True, is_batch_norm=False)
    assert not run_hits(RULE, size(None, raised=str(raised.value)), norm)


@pytest.mark.parametrize("is_norm", [True, False])
def test_the_norm_that_uses_the_batch_says_that_one_sample_raises(is_norm: bool) -> None:
    place = mixing("bn", "BatchNorm1d", "aten.native_batch_norm", is_norm=is_norm, layer="bn")
    (hit,) = run_hits("bn301_neighbour_dependent_prediction", size(None, raised=TOO_FEW), swap(place))
    assert hit.message.endswith("raises an error for a batch of one") == is_norm


def test_the_page_is_what_torch_does() -> None:
    class Head(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(dim=(2, 3), keepdim=True).squeeze()

    assert Head()(torch.zeros(4, 8, 5, 5)).shape == (4, 8)
    assert Head()(torch.zeros(1, 8, 5, 5)).shape == (8,)


@pytest.mark.parametrize("fields", [{"values": 1, "uses_batch": False}, {"values": 16, "uses_batch": True}])
def test_a_norm_that_has_more_values_or_needs_none_does_not_explain_the_error(fields: dict[str, Any]) -> None:
    norm = norm_size("norm", is_batch_norm=False, **fields)
    assert len(run_hits(RULE, size(None, raised=TOO_FEW), norm)) == 1
