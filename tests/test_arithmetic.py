"""Our arithmetic against PyTorch's own batch norm in float64, and against itself under every split of the data."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bnaudit import arithmetic
from bnaudit.description import CUMULATIVE

SHAPES = [(4, 3), (5, 2, 7), (2, 3, 4, 5), (2, 2, 3, 2, 4)]


def _torch_norm(channels: int, momentum: float | None = 0.1, eps: float = 1e-5) -> torch.nn.Module:
    class AnyRank(torch.nn.modules.batchnorm._BatchNorm):
        def _check_input_dim(self, input: torch.Tensor) -> None:
            pass

    return AnyRank(channels, eps=eps, momentum=momentum).double()


def _batch(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(3.0, 2.5, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_training_forward_is_pytorchs(shape: tuple[int, ...]) -> None:
    norm, batch = _torch_norm(shape[1]), _batch(shape)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2.0)
        norm.bias.uniform_(-1.0, 1.0)
    gamma, beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    ours = arithmetic.forward(batch, arithmetic.batch_mean(batch), arithmetic.batch_var(batch), gamma, beta)
    np.testing.assert_allclose(ours, norm(torch.from_numpy(batch)).detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("momentum", [0.1, 0.01, 1.0, None])
def test_running_statistics_and_eval_are_pytorchs(shape: tuple[int, ...], momentum: float | None) -> None:
    norm = _torch_norm(shape[1], momentum, eps=1e-3)
    running = arithmetic.Running(np.zeros(shape[1]), np.ones(shape[1]), 0)
    for seed in range(5):
        norm(torch.from_numpy(_batch(shape, seed)))
        running = arithmetic.update(running, _batch(shape, seed), CUMULATIVE if momentum is None else momentum)
    np.testing.assert_allclose(running.mean, norm.running_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(running.var, norm.running_var.numpy(), rtol=1e-12)
    assert running.updates == norm.num_batches_tracked.item()
    unseen = _batch(shape, 99)
    ours = arithmetic.forward(unseen, running.mean, running.var, eps=1e-3)
    np.testing.assert_allclose(ours, norm.eval()(torch.from_numpy(unseen)).detach().numpy(), rtol=1e-11, atol=1e-12)


def test_moments_of_a_batch_are_torchs() -> None:
    batch = _batch((6, 3, 5))
    tensor = torch.from_numpy(batch)
    np.testing.assert_allclose(arithmetic.batch_mean(batch), tensor.mean((0, 2)).numpy(), rtol=1e-12)
    np.testing.assert_allclose(arithmetic.batch_var(batch), tensor.var((0, 2), correction=0).numpy(), rtol=1e-12)
    np.testing.assert_allclose(
        arithmetic.batch_var(batch, unbiased=True), tensor.var((0, 2), correction=1).numpy(), rtol=1e-12
    )


def test_single_precision_input_is_computed_in_double() -> None:
    batch = (_batch((64, 2)) + 1000.0).astype(np.float32)
    assert arithmetic.batch_var(batch).dtype == np.float64
    np.testing.assert_array_equal(arithmetic.batch_mean(batch), batch.astype(np.float64).mean(0))


def test_one_value_has_no_unbiased_variance() -> None:
    with pytest.raises(ZeroDivisionError):
        arithmetic.batch_var(np.ones((1, 3)), unbiased=True)


def test_values_per_channel_counts_everything_but_the_channels() -> None:
    assert arithmetic.values_per_channel((32, 64, 56, 56)) == 32 * 56 * 56 == 100352
    assert arithmetic.values_per_channel((8, 10)) == 8


def test_folding_equals_the_eval_forward() -> None:
    rng = np.random.default_rng(1)
    mean, var, gamma, beta = rng.normal(size=4), rng.uniform(1e-6, 3, 4), rng.normal(size=4), rng.normal(size=4)
    batch = _batch((3, 4, 2))
    gain, shift = arithmetic.fold(mean, var, gamma, beta, 1e-3)
    folded = batch * gain[:, None] + shift[:, None]
    np.testing.assert_allclose(folded, arithmetic.forward(batch, mean, var, gamma, beta, 1e-3), rtol=1e-10)
    bare = arithmetic.fold(mean, var, eps=1e-3)
    np.testing.assert_allclose(bare.gain, 1 / np.sqrt(var + 1e-3), rtol=1e-12)
    np.testing.assert_allclose(bare.shift, -mean / np.sqrt(var + 1e-3), rtol=1e-12)


def test_gain_change_is_symmetric_and_large_only_for_small_variances() -> None:
    var = np.array([1.0, 1e-3, 0.0])
    change = arithmetic.gain_change(var, 1e-5, 1e-3)
    np.testing.assert_array_equal(change, arithmetic.gain_change(var, 1e-3, 1e-5))
    by_hand = [math.sqrt(1.001 / 1.00001) - 1, math.sqrt(2e-3 / 1.01e-3) - 1, math.sqrt(1e-3 / 1e-5) - 1]
    np.testing.assert_allclose(change, by_hand, rtol=1e-12)


@pytest.mark.parametrize(("momentum", "updates"), [(0.1, 0), (0.1, 1), (0.1, 28), (0.01, 30), (1.0, 3), (0.0, 50)])
def test_residual_share_is_what_zero_batches_leave_of_the_initial_variance(momentum: float, updates: int) -> None:
    norm = _torch_norm(1, momentum)
    for _ in range(updates):
        norm(torch.zeros(2, 1, dtype=torch.float64))
    assert arithmetic.residual_share(momentum, updates) == pytest.approx(norm.running_var.item(), rel=1e-12)


def test_a_cumulative_average_forgets_the_initial_values_at_once() -> None:
    assert arithmetic.residual_share(CUMULATIVE, 0) == 1.0
    assert arithmetic.residual_share(CUMULATIVE, 1) == 0.0


def test_residual_share_never_overflows() -> None:
    assert arithmetic.residual_share(3.5, 10**9) == math.inf
    assert arithmetic.residual_share(0.1, 10**9) == 0.0
    assert arithmetic.residual_share(1.5, 2) == 0.25


@pytest.mark.parametrize("momentum", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_momentum_conventions_describe_the_same_update(momentum: float) -> None:
    old, new = 2.0, 5.0
    pytorch = (1 - momentum) * old + momentum * new
    for to, back in (
        (arithmetic.momentum_to_keras, arithmetic.momentum_from_keras),
        (arithmetic.momentum_to_onnx, arithmetic.momentum_from_onnx),
    ):
        theirs = to(momentum)  # both write: old · momentum + new · (1 − momentum)
        assert old * theirs + new * (1 - theirs) == pytest.approx(pytorch)
        assert back(theirs) == pytest.approx(momentum)


@given(
    rows=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), min_size=2, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
def test_any_split_gives_the_same_moments(rows: list[list[float]], cuts: list[int]) -> None:
    data = np.array(rows)
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    merged = arithmetic.Moments(0, np.zeros(2), np.zeros(2))
    for start, stop in pairwise(edges):
        merged = arithmetic.merge(merged, arithmetic.moments(data[start:stop]))
    assert merged.n == len(rows)
    scale = np.abs(data).max() + 1e-300
    np.testing.assert_allclose(merged.mean, data.mean(0), rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(merged.var(), data.var(0), rtol=1e-9, atol=1e-13 * scale**2)
    np.testing.assert_allclose(merged.var(unbiased=True), data.var(0, ddof=1), rtol=1e-9, atol=1e-13 * scale**2)


def test_merging_does_not_cancel_where_mean_of_squares_does() -> None:
    data = np.random.default_rng(2).normal(1e8, 0.1, (1000, 1))
    merged = arithmetic.moments(data[:1])
    for row in range(1, 1000):
        merged = arithmetic.merge(merged, arithmetic.moments(data[row : row + 1]))
    assert merged.var()[0] == pytest.approx(data.var(), rel=1e-6)
    assert (data**2).mean() - data.mean() ** 2 != pytest.approx(data.var(), rel=0.5)


def test_merging_with_nothing_changes_nothing() -> None:
    some = arithmetic.moments(_batch((4, 2)))
    nothing = arithmetic.Moments(0, np.zeros(2), np.zeros(2))
    for merged in (arithmetic.merge(some, nothing), arithmetic.merge(nothing, some)):
        np.testing.assert_array_equal(merged.mean, some.mean)
        np.testing.assert_array_equal(merged.m2, some.m2)


def test_the_defaults_are_torchs() -> None:
    norm = torch.nn.BatchNorm1d(1)
    assert (norm.eps, norm.momentum) == (arithmetic.PYTORCH_EPS, arithmetic.PYTORCH_MOMENTUM)


@pytest.mark.parametrize("momentum", [2.05, -0.05])
def test_a_momentum_just_outside_of_0_to_2_diverges(momentum: float) -> None:
    assert arithmetic.residual_share(momentum, 3) == math.inf


def test_nothing_of_unknown_mean_adds_nothing() -> None:
    one = arithmetic.moments(_batch((4, 2)))
    nothing = arithmetic.Moments(0, np.full(2, np.nan), np.zeros(2))
    assert arithmetic.merge(one, nothing) is one
