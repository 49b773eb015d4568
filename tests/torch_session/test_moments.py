"""Moments against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bnaudit.torch_session.moments import batch_moments, merged, sample_moments, variance_of


def activation(*shape: int, mean: float = 0.3, spread: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4)) * spread + mean


@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 7), (5, 3, 9, 8), (5, 3, 4, 4, 4), (6, 12, 90, 90)])
@pytest.mark.parametrize("mean", [0.3, 1000.0])
def test_each_samples_moments_are_numpys(shape: tuple[int, ...], mean: float) -> None:
    values = activation(*shape, mean=mean, spread=0.1)
    found = sample_moments(values, shape[0])
    assert found is not None
    exact = values.double().numpy().reshape(shape[0], shape[1], -1)
    np.testing.assert_allclose(found[0], exact.mean(2), rtol=2e-7)
    np.testing.assert_allclose(found[1], exact.var(2), rtol=1e-4, atol=1e-12)
    assert found[0].dtype == np.float64 and not found[0].flags.writeable


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_widened(dtype: torch.dtype) -> None:
    values = activation(4, 3, 8, 8).to(dtype)
    found = sample_moments(values, 4)
    assert found is not None
    np.testing.assert_allclose(found[1], values.double().numpy().var((2, 3)), rtol=1e-12)


def test_memory_order_does_not_matter() -> None:
    values = activation(4, 3, 8, 8)
    for other in (values.to(memory_format=torch.channels_last), values.transpose(2, 3)):
        for one, two in zip(sample_moments(values, 4) or (), sample_moments(other, 4) or (), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


def test_rows_folded_into_the_batch_are_their_samples() -> None:
    values = activation(12, 3)
    found = sample_moments(values, 4)
    assert found is not None
    np.testing.assert_allclose(found[0], values.double().view(4, 3, 3).mean(1).numpy())
    np.testing.assert_allclose(found[1], values.double().view(4, 3, 3).var(1, correction=0).numpy())


def test_no_moments_where_samples_cannot_be_told_apart() -> None:
    assert sample_moments(activation(5, 3), 4) is None
    assert sample_moments(torch.empty(4, 3, device="meta"), 4) is None


def test_samples_merge_to_the_batch() -> None:
    values = activation(6, 3, 10).double()
    mean, var = merged(*(sample_moments(values, 6) or ()))
    np.testing.assert_allclose(mean, values.numpy().mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(var, values.numpy().var((0, 2)), rtol=1e-12)
    for one, two in zip(batch_moments(values), (mean, var), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_the_variance_behind_an_inverse_deviation() -> None:
    var = np.array([0.25, 4.0, 0.0])
    np.testing.assert_allclose(variance_of(1 / np.sqrt(var + 1e-5), 1e-5), var, atol=1e-15)
