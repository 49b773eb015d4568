"""Digests tell values apart by their bits and by where these stand."""

from __future__ import annotations

import itertools

import pytest
import torch

from bnaudit.torch_session.digests import tensor_digest

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def drawn(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("count", [9, 40, 5000])
def test_two_signs_that_flip_do_not_cancel_wherever_they_stand(count: int, dtype: torch.dtype) -> None:
    values = drawn(count, dtype)
    seen = {tensor_digest(values)}
    pairs = list(itertools.combinations(sorted({0, 1, 2, 3, 5, 7, count - 2, count - 1}), 2))
    for pair in pairs:
        flipped = values.clone()
        flipped[list(pair)] *= -1
        seen.add(tensor_digest(flipped))
    assert len(seen) == 1 + len(pairs)


@pytest.mark.parametrize("count", [8, 5000])
def test_values_in_another_order_have_another_digest(count: int) -> None:
    values = drawn(count, torch.float32)
    orders = [values, values.flip(0), values.roll(1), values.roll(2), values[torch.arange(count) ^ 1]]
    assert len({tensor_digest(order) for order in orders}) == len(orders)


def test_a_change_that_sums_to_nothing_is_seen() -> None:
    """+1, −2, +1 in neighbouring places, which weights that grow evenly would not see."""
    values = torch.arange(6000)
    for start in (0, 100, 5000):
        changed = values.clone()
        changed[start : start + 3] += torch.tensor([1, -2, 1])
        assert tensor_digest(changed) != tensor_digest(values)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool])
def test_a_complement_is_another_value(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1]).to(dtype)
    assert tensor_digest(~values) != tensor_digest(values)
