"""The numbers of one layer as a comparison needs them: one value per channel, absent affines filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.arithmetic import PYTORCH_EPS
from bnaudit.description import NormLayer, StoredTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Affine(NamedTuple):
    """gamma and beta, (channels,)."""

    gamma: Array
    beta: Array


class Statistics(NamedTuple):
    """Mean and variance, (channels,)."""

    mean: Array
    var: Array


def affine_of(layer: NormLayer, channels: int) -> Affine | None:
    """Its gamma and beta; where it has none those that it computes with, 1 and 0. None: named without usable values."""
    import numpy as np

    gamma = _flat(layer.weight, layer.gamma, channels) if layer.weight is not None else np.ones(channels)
    beta = _flat(layer.bias, layer.beta, channels) if layer.bias is not None else np.zeros(channels)
    return None if gamma is None or beta is None else Affine(gamma, beta)


def statistics_of(layer: NormLayer, channels: int) -> Statistics | None:
    """Its mean and variance; None without either."""
    mean = _flat(layer.running_mean, layer.mean, channels)
    var = _flat(layer.running_var, layer.var, channels)
    return None if mean is None or var is None else Statistics(mean, var)


def epsilons(subject: NormLayer, baseline: NormLayer) -> tuple[float, float]:
    """The epsilon of each; where one does not say, the other's, and PyTorch's default where neither does."""
    known = [layer.eps for layer in (subject, baseline) if layer.eps is not None]
    other = known[0] if known else PYTORCH_EPS
    return (other if subject.eps is None else subject.eps), (other if baseline.eps is None else baseline.eps)


def _flat(stored: StoredTensor | None, values: Array | None, channels: int) -> Array | None:
    if stored is None or values is None or values.size != channels or channels == 0:
        return None
    return values.reshape(-1)
