"""Fingerprints of rows: equal for equal bits, unequal for anything else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.torch_session.fingerprints import Fingerprints, combined, fingerprint
from bnaudit.torch_session.layouts import WHOLE, Layout

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
)


def of_rows(rows: torch.Tensor) -> tuple[int, ...]:
    return fingerprint(rows)


@given(
    length=st.sampled_from([1, 2, 3, 7, 2047, 2048, 2049, 4096, 10_001]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 5),
)
def test_rows_have_the_fingerprints_that_they_have_alone(length: int, dtype: torch.dtype, seed: int) -> None:
    values = torch.randn(3, length, generator=torch.Generator().manual_seed(seed)).mul(50).to(dtype)
    assert of_rows(values) == tuple(of_rows(values[row : row + 1])[0] for row in range(3))
    assert of_rows(values) == of_rows(values.clone())


@given(
    length=st.sampled_from([2, 5, 2048, 2050, 300_000]),
    places=st.lists(st.integers(0, 10**9), min_size=1, max_size=4),
    change=st.sampled_from(["negate", "next", "zero"]),
)
def test_every_change_of_a_bit_shows(length: int, places: list[int], change: str) -> None:
    values = torch.ones(1, length)
    other = values.clone()
    for place in {place % length for place in places}:
        new = {"negate": -1.0, "next": float(np.nextafter(np.float32(1), np.float32(2))), "zero": 0.0}[change]
        other[0, place] = new
    assert of_rows(values) != of_rows(other)


@pytest.mark.parametrize("length", [4, 2048, 5000])
def test_an_even_number_of_changed_signs_shows(length: int) -> None:
    values = torch.randn(1, length)
    other = values.clone()
    other[0, 1::2] *= -1
    assert of_rows(values) != of_rows(other)
    assert of_rows(values) != of_rows(-values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8])
def test_permuted_values_show(dtype: torch.dtype) -> None:
    values = (torch.arange(6000) % 2 + (torch.arange(6000) > 4000)).to(dtype)[None]
    for other in (values.roll(1, 1), values.flip(1), torch.cat([values[:, 2048:4096], values[:, :2048]], 1)):
        assert of_rows(values)[0] != of_rows(other)[0]


def test_zero_and_its_negative_differ_and_nan_equals_itself() -> None:
    assert of_rows(torch.zeros(1, 3)) != of_rows(-torch.zeros(1, 3))
    assert of_rows(torch.full((1, 3), float("nan"))) == of_rows(torch.full((1, 3), float("nan")))


@pytest.mark.parametrize("strided", ["transposed", "sliced", "channels last", "expanded"])
def test_memory_order_does_not_matter(strided: str) -> None:
    base = torch.randn(4, 6, 5, 5)
    tensor = {
        "transposed": base.transpose(0, 1),
        "sliced": base[:, ::2],
        "channels last": base.to(memory_format=torch.channels_last),
        "expanded": base[:, :1].expand(4, 6, 5, 5),
    }[strided]
    layout = Layout(1 if strided == "transposed" else 0, 4)
    prints = Fingerprints((0, 3))
    assert prints.rows(tensor, layout) == Fingerprints((0, 3)).rows(tensor.contiguous(), layout)


def test_rows_are_those_of_the_layout() -> None:
    values = torch.randn(3, 4, 5)
    expected = Fingerprints((1, 3)).rows(values.transpose(0, 1).contiguous(), Layout(0, 4))
    assert Fingerprints((1, 3)).rows(values, Layout(1, 4)) == expected
    folded = values.transpose(0, 1).reshape(12, 5)
    assert Fingerprints((1, 3)).rows(folded, Layout(0, 4, 1, 3)) == expected


def test_a_piece_has_rows_for_the_samples_in_it() -> None:
    values = torch.randn(6, 5)
    whole = Fingerprints((0, 2, 5)).rows(values, Layout(0, 6))
    piece = Fingerprints((0, 2, 5)).rows(values[1:4], Layout(0, 3, start=1))
    assert piece == (0, whole[1], 0)
    assert Fingerprints((0, 2, 5)).rows(values[2], Layout(WHOLE, 1, start=2)) == (0, whole[1], 0)


def test_a_tensor_written_to_is_read_again() -> None:
    values, prints = torch.randn(4, 5), Fingerprints((0, 3))
    before = prints.rows(values, Layout(0, 4))
    values.add_(1)
    assert prints.rows(values, Layout(0, 4)) != before
    values.data.sub_(0.5)
    prints.forget([values])
    assert prints.rows(values, Layout(0, 4)) == Fingerprints((0, 3)).rows(values.clone(), Layout(0, 4))


def test_complex_and_conjugated_tensors_have_rows() -> None:
    values = torch.randn(4, 5, dtype=torch.complex64)
    prints = Fingerprints((0, 3))
    assert prints.rows(values.conj(), Layout(0, 4)) == prints.rows(values.conj().resolve_conj(), Layout(0, 4))
    assert prints.rows(values.conj(), Layout(0, 4)) != prints.rows(values, Layout(0, 4))


@pytest.mark.parametrize("tensor", [torch.empty(4, 5, device="meta"), torch.eye(4).to_sparse()])
def test_what_has_no_memory_has_one_fingerprint(tensor: torch.Tensor) -> None:
    prints = Fingerprints((0, 3))
    assert prints.rows(tensor, Layout(0, 4)) == (0, 0)
    assert prints.whole(tensor) == 0


def test_the_models_random_numbers_are_not_touched() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    Fingerprints((0,)).rows(torch.ones(2, 9000), Layout(0, 2))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_order_of_several_numbers_matters() -> None:
    assert combined([1, 2]) != combined([2, 1])
    assert combined([0]) != combined([0, 0])
