"""Batch-norm arithmetic in float64: what a layer computes in training, what it keeps, what it computes in eval.

Arrays are NumPy arrays, channels on axis 1 (axis 0 for 1-D statistics); results are float64. Everything goes through
methods of the arrays, so that a command that meets no array does not wait for `import numpy`.

Sources: Ioffe and Szegedy, "Batch Normalization", 2015 (arXiv:1502.03167); PyTorch 2.13, `torch.nn.BatchNorm2d`;
ONNX `BatchNormalization` 15; Keras 3 `BatchNormalization`; Chan, Golub and LeVeque, "Updating Formulae and a
Pairwise Algorithm for Computing Sample Variances", Stanford CS-79-773, 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bnaudit.description import Cumulative

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]
    AnyArray: TypeAlias = NDArray[Any]

PYTORCH_EPS = 1e-5
"""Default epsilon of `torch.nn.BatchNorm*d`."""
PYTORCH_MOMENTUM = 0.1
"""Default momentum of `torch.nn.BatchNorm*d`: the weight of the new batch."""


def values_per_channel(shape: Sequence[int]) -> int:
    """N × H × W … for a batch of shape (N, C, H, W, …): how many values one channel's mean is taken over."""
    return shape[0] * math.prod(shape[2:])


def batch_mean(batch: AnyArray) -> Array:
    """Mean per channel, (C,), of a batch (N, C, *)."""
    return _double(_double(batch).mean(axis=_reduced(batch)))


def batch_var(batch: AnyArray, *, unbiased: bool = False) -> Array:
    """Variance per channel, (C,): divided by n (biased: normalizes the batch) or n − 1 (unbiased: is stored).

    Raises ZeroDivisionError for the unbiased variance of one value; PyTorch refuses to train on one, too.
    """
    biased = _double(_double(batch).var(axis=_reduced(batch)))
    return biased * bessel(values_per_channel(batch.shape)) if unbiased else biased


def bessel(count: int) -> float:
    """Bessel's correction n / (n − 1), from the biased to the unbiased variance of n values.

    Raises ZeroDivisionError for one value.
    """
    return count / (count - 1)


def normalize(values: AnyArray, mean: AnyArray, var: AnyArray, eps: float = PYTORCH_EPS) -> Array:
    """(x − mean) / √(var + eps), channel by channel; `values` (N, C, *), statistics (C,)."""
    centred = _double(values) - _channels(mean, values)
    return _double(centred / _channels(_double(var) + eps, values) ** 0.5)


def forward(
    values: AnyArray,
    mean: AnyArray,
    var: AnyArray,
    gamma: AnyArray | None = None,
    beta: AnyArray | None = None,
    eps: float = PYTORCH_EPS,
) -> Array:
    """gamma · (x − mean) / √(var + eps) + beta: eval with the stored statistics, training with the batch's (biased)."""
    result = normalize(values, mean, var, eps)
    if gamma is not None:
        result = result * _channels(gamma, values)
    return result if beta is None else result + _channels(beta, values)


class Affine(NamedTuple):
    """A norm layer in eval mode as one multiplication and one addition per channel: gain · x + shift."""

    gain: Array
    shift: Array


def fold(
    mean: AnyArray,
    var: AnyArray,
    gamma: AnyArray | None = None,
    beta: AnyArray | None = None,
    eps: float = PYTORCH_EPS,
) -> Affine:
    """gain = gamma / √(var + eps), shift = beta − mean · gain: what folding into a convolution multiplies and adds."""
    gain = (_double(var) + eps) ** -0.5
    if gamma is not None:
        gain = gain * _double(gamma)
    shift = -_double(mean) * gain
    return Affine(gain, shift if beta is None else shift + _double(beta))


def gain_change(var: AnyArray, eps: float, other: float) -> Array:
    """By how much the larger gain exceeds the smaller one when epsilon changes: √((var + max) / (var + min)) − 1."""
    small, large = sorted((eps, other))
    return _double(((_double(var) + large) / (_double(var) + small)) ** 0.5 - 1.0)


class Running(NamedTuple):
    """What a batch norm keeps between batches."""

    mean: Array
    var: Array
    updates: int
    """num_batches_tracked."""


def effective_momentum(momentum: float | Cumulative, updates: int) -> float:
    """Weight of the next batch: the momentum itself, or 1 / (updates + 1) for PyTorch's `momentum=None`."""
    return 1.0 / (updates + 1) if isinstance(momentum, Cumulative) else momentum


def update(running: Running, batch: AnyArray, momentum: float | Cumulative = PYTORCH_MOMENTUM) -> Running:
    """One training step's effect on the stored statistics.

    running ← (1 − m) · running + m · observed, with the batch's mean and its *unbiased* variance.
    """
    weight = effective_momentum(momentum, running.updates)
    mean = (1.0 - weight) * running.mean + weight * batch_mean(batch)
    var = (1.0 - weight) * running.var + weight * batch_var(batch, unbiased=True)
    return Running(mean, var, running.updates + 1)


def residual_share(momentum: float | Cumulative, updates: int) -> float:
    """Share of the initial values (mean 0, variance 1) in the running ones: (1 − m)ⁿ after n updates.

    Cumulative averages forget them with the first update. Momentum outside [0, 2] is no average and diverges: inf.
    """
    if updates == 0:
        return 1.0
    if isinstance(momentum, Cumulative):
        return 0.0
    keep = abs(1.0 - momentum)
    return float(keep**updates) if keep <= 1.0 else math.inf


def momentum_from_keras(momentum: float) -> float:
    """PyTorch's momentum (weight of the new batch) from TensorFlow's and Keras' (weight of the old value)."""
    return 1.0 - momentum


def momentum_to_keras(momentum: float) -> float:
    """TensorFlow's and Keras' momentum (weight of the old value) from PyTorch's (weight of the new batch)."""
    return 1.0 - momentum


def momentum_from_onnx(momentum: float) -> float:
    """PyTorch's momentum from ONNX's, which weighs the old value as Keras' does, in every opset."""
    return 1.0 - momentum


def momentum_to_onnx(momentum: float) -> float:
    """ONNX's momentum (weight of the old value) from PyTorch's (weight of the new batch)."""
    return 1.0 - momentum


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations per channel: enough to merge any split of the data exactly."""

    n: int
    mean: Array
    m2: Array

    def var(self, *, unbiased: bool = False) -> Array:
        """m2 / n, or m2 / (n − 1); raises ZeroDivisionError when that divisor is 0."""
        return self.m2 * (1 / (self.n - 1 if unbiased else self.n))


def moments(batch: AnyArray) -> Moments:
    """The moments of a batch (N, C, *), per channel."""
    mean = batch_mean(batch)
    deviations = _double(batch) - _channels(mean, batch)
    return Moments(values_per_channel(batch.shape), mean, _double((deviations**2).sum(axis=_reduced(batch))))


def merge(one: Moments, other: Moments) -> Moments:
    """The moments of both together (Chan et al.), without the cancellation of E[x²] − E[x]².

    With δ = mean₂ − mean₁ and n = n₁ + n₂: mean = mean₁ + δ · n₂ / n, M2 = M2₁ + M2₂ + δ² · n₁ · n₂ / n.
    """
    if other.n == 0:
        return one
    count = one.n + other.n
    delta = other.mean - one.mean
    share = other.n / count
    return Moments(count, one.mean + delta * share, one.m2 + other.m2 + delta**2 * (one.n * share))


def _double(values: AnyArray) -> Array:
    doubled: Array = values.astype("float64", copy=False)
    return doubled


def _reduced(batch: AnyArray) -> tuple[int, ...]:
    return (0, *range(2, batch.ndim))


def _channels(statistic: AnyArray, values: AnyArray) -> Array:
    """The statistic (C,) in the shape that broadcasts over (N, C, *)."""
    return _double(statistic).reshape((1, -1) + (1,) * (values.ndim - 2))
