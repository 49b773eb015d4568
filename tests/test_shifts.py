"""Differences in units of rounding, which rows are compared, and which decisions flip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from bnaudit.measurement import Shift
from bnaudit.session import Batch, Output, Trace
from bnaudit.shifts import Band, band, decided, epsilon, row_axes, rows_differ, shift, whole_shift


def trace(*values: Any, dtype: str | None = None, compute: str = "float32") -> Trace:
    arrays = [np.asarray(entry) for entry in values]
    outputs = [Output(name=f"[{at}]", values=entry, dtype=dtype or str(entry.dtype)) for at, entry in enumerate(arrays)]
    return Trace(outputs=tuple(outputs), compute_dtype=compute)


def batch(size: int, axis: int = 0) -> Batch:
    return Batch(args=(), size=size, anchors=(0,), axis=axis)


SAME = ((0, 0), (1, 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_epsilons_are_the_frameworks(dtype: torch.dtype) -> None:
    assert epsilon(str(dtype).removeprefix("torch.")) == torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_epsilons_of_eight_bits_are_the_frameworks(dtype: str) -> None:
    assert epsilon(dtype) == torch.finfo(getattr(torch, dtype)).eps


def test_equal_rows_are_exact_and_nan_equals_nan() -> None:
    one = trace(np.float32([[1, np.nan], [2, np.inf], [3, 4]]))
    other = trace(np.float32([[1, np.nan], [2, np.inf], [9, 9]]))
    assert shift(one, other, (0,), SAME).exact
    assert not shift(one, other, (0,), ((2, 2),)).exact


def test_a_difference_is_told_in_epsilons_of_the_outputs_scale() -> None:
    one, other = trace(np.float32([[8.0, 1.0]])), trace(np.float32([[8.0, 1.0 + 2**-20]]))
    found = shift(one, other, (0,), ((0, 0),))
    assert (found.difference, found.scale, found.epsilons) == (2**-20, 8.0, 2**-20 / (8 * 2**-23))
    assert band(found) is Band.NOISE


def test_the_coarser_of_output_and_arithmetic_sets_the_epsilon() -> None:
    one, other = trace(np.float32([[1.0]]), compute="bfloat16"), trace(np.float32([[1.25]]), compute="bfloat16")
    found = shift(one, other, (0,), ((0, 0),))
    assert (found.dtype, found.epsilons) == ("bfloat16", 0.25 / 2**-7 / 1.25)
    assert band(found) is Band.NOISE and band(shift(trace([[1.0]]), trace([[1.25]]), (0,), ((0, 0),))) is Band.LEAK


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_against_none_is_infinitely_far(value: float) -> None:
    found = shift(trace(np.float32([[1.0, 2.0]])), trace(np.float32([[value, 2.0]])), (0,), ((0, 0),))
    assert found.difference == math.inf and found.scale == 2.0 and band(found) is Band.LEAK


def test_the_output_that_differs_most_in_its_own_scale_is_told() -> None:
    one = trace(np.float32([[1000.0]]), np.float32([[0.001]]))
    other = trace(np.float32([[1000.5]]), np.float32([[0.002]]))
    assert shift(one, other, (0, 0), ((0, 0),)).output == "[1]"


def test_outputs_without_a_batch_axis_are_left_out() -> None:
    one, other = trace(np.float32([[1.0]]), np.float32(5.0)), trace(np.float32([[1.0]]), np.float32(6.0))
    assert shift(one, other, (0, None), ((0, 0),)).exact
    assert not whole_shift(one, other).exact


def test_integers_count_when_they_differ_and_no_floating_output_does() -> None:
    labels = trace(np.float32([[1.0]]), np.int64([3])), trace(np.float32([[1.0]]), np.int64([4]))
    found = shift(*labels, (0, 0), ((0, 0),))
    assert (found.output, found.epsilons, found.difference) == ("[1]", math.inf, 1.0)
    nudged = trace(np.float32([[1.0]]), np.int64([3])), trace(np.float32([[1.0 + 2**-22]]), np.int64([4]))
    assert shift(*nudged, (0, 0), ((0, 0),)).output == "[0]"


def test_rows_of_another_axis_are_compared() -> None:
    one = trace(np.arange(6.0).reshape(3, 2))
    other = trace(np.arange(6.0).reshape(3, 2)[:, ::-1])
    assert shift(one, other, (1,), ((0, 1), (1, 0))).exact


def test_an_output_that_lost_its_batch_axis_at_size_one_is_one_row() -> None:
    full, one = trace(np.float32([[1, 2], [3, 4]])), trace(np.float32([3, 4]))
    assert shift(full, one, (0,), ((1, 0),)).exact
    scalar = trace(np.float32([7.0, 8.0])), trace(np.float32(8.0))
    assert shift(*scalar, (0,), ((1, 0),)).exact


def test_outputs_of_unlike_shape_are_infinitely_far() -> None:
    found = shift(trace(np.ones((2, 3))), trace(np.arange(8.0).reshape(2, 4)), (0,), SAME)
    assert (found.difference, found.shapes) == (math.inf, "[3] and [4]")
    assert not whole_shift(trace(np.zeros(2)), trace(np.zeros(2), np.zeros(2))).exact


def _padded(lengths: list[int], to: int, padding: float = 0.0) -> np.ndarray[Any, Any]:
    """Rows 1, 2, 3, … up to each one's own length."""
    counted = np.arange(1.0, to + 1.0)
    return np.where(np.arange(to) < np.array(lengths)[:, None], counted, padding)[:, :, None]


@pytest.mark.parametrize("padding", [0.0, -1.5, np.nan])
def test_padding_to_the_longest_of_the_batch_is_no_difference(padding: float) -> None:
    short, long = _padded([3, 5], 5, padding), _padded([3, 5], 9, padding)
    assert shift(trace(short), trace(long), (0,), SAME).exact
    moved = long.copy()
    moved[0, 1] += 1
    assert shift(trace(short), trace(moved), (0,), SAME).difference == 1.0


def test_a_row_that_is_cut_off_is_a_difference() -> None:
    whole = _padded([3, 7], 7)
    found = shift(trace(whole[:, :5]), trace(whole), (0,), SAME)
    assert (found.difference, found.shapes) == (math.inf, "[5, 1] and [7, 1]")


def test_finds_as_many_as_samples_by_chance_are_no_rows() -> None:
    full = trace(np.zeros((4, 10)), np.zeros((4, 6)), np.zeros((9, 6)))
    assert row_axes(full, batch(4), trace(np.zeros((1, 10))), 1) == (0, None, None)


@pytest.mark.parametrize(
    ("shape", "axis", "other", "expected"),
    [
        ((4, 10), 0, (1, 10), 0),
        ((7, 4, 10), 1, (7, 1, 10), 1),
        ((4, 4), 0, (4, 1), 1),
        ((4, 4), 0, (4, 4), None),
        ((4,), 0, (), 0),
        ((10,), 0, (10,), None),
    ],
    ids=["first", "the inputs'", "confirmed to be the second", "constant", "squeezed", "none"],
)
def test_the_batch_axis_follows_the_batch_size(
    shape: tuple[int, ...], axis: int, other: tuple[int, ...], expected: int | None
) -> None:
    assert row_axes(trace(np.zeros(shape)), batch(4, axis), trace(np.zeros(other)), 1) == (expected,)


def test_without_another_size_axis_0_comes_first() -> None:
    assert row_axes(trace(np.zeros((4, 4))), batch(4, 1)) == (0,)


def test_decisions_are_the_largest_class_or_the_sign_of_a_logit() -> None:
    assert decided(np.float32([[1, 2], [3, 0]])).tolist() == [1, 0]  # type: ignore[union-attr]
    assert decided(np.float32([[1], [-1]])).tolist() == [True, False]  # type: ignore[union-attr]
    assert decided(np.int64([3, 4])).tolist() == [3, 4]  # type: ignore[union-attr]
    assert decided(np.zeros((2, 3, 4))) is None
    found = shift(trace([[1.0, 2.0], [3.0, 0.0]]), trace([[2.5, 2.0], [3.0, 0.0]]), (0,), SAME)
    assert (found.flips, found.decisions) == (1, 2)


def test_samples_differ_when_any_row_does() -> None:
    assert rows_differ(trace([[1.0], [1.0], [2.0]]), (0,), (0, 1, 2))
    assert not rows_differ(trace([[1.0], [1.0], [2.0]]), (0,), (0, 1))
    assert not rows_differ(trace([[np.nan], [np.nan]]), (0,), (0, 1))


def test_the_limit_is_inclusive() -> None:
    assert band(Shift(exact=False, epsilons=64.0)) is Band.NOISE
    assert band(Shift(exact=False, epsilons=64.1)) is Band.LEAK
