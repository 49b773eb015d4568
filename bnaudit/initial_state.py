"""What a batch norm looks like before training: mean 0, variance 1, counter 0, weight constant or drawn, bias 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bnaudit.arithmetic import PYTORCH_MOMENTUM
from bnaudit.description import CUMULATIVE, NormKind, NormLayer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEARNS_STATISTICS = (NormKind.BATCH, NormKind.SYNC_BATCH)
"""The batch norms that update statistics and count the updates; frozen ones do neither."""
ABSORBED = 1e-3
"""The most by which the one variance of absorbed statistics is off 1: Caffe2's frozen norms store 1 − epsilon."""
_DRAWN_WITHIN = 0.1
"""Of 1: five standard deviations of N(1, 0.02)."""
_FEWEST_DRAWN = 8
"""Layers."""
_STANDARD_ERRORS = 5.0
_QUARTILE = 0.6745
"""Standard deviations from the centre within which half of a normal distribution lies."""


def is_virgin(layer: NormLayer) -> bool:
    """Mean exactly 0 and variance exactly 1 in all channels; False without values."""
    mean, var = layer.mean, layer.var
    if mean is None or var is None or not mean.size or not var.size:
        return False
    # The first channel decides nearly always, and costs least.
    return mean.flat[0] == 0.0 and var.flat[0] == 1.0 and not mean.any() and bool((var == 1.0).all())


def has_initial_affine(layer: NormLayer) -> bool:
    """Nothing shows that weight and bias were trained: the bias is 0, the weight constant or as initialisers draw it.

    PyTorch before 1.2 drew the weight from U(0, 1), DCGAN and its many descendants draw it from N(1, 0.02) (Radford et
    al. 2016). Without affine parameters there is nothing to show it.
    """
    gamma, beta = layer.gamma, layer.beta
    if beta is not None and beta.any():
        return False
    if gamma is None or not gamma.size:
        return True
    low, high = gamma.min(), gamma.max()
    drawn = (low >= 0.0 and high <= 1.0) or (low >= 1.0 - _DRAWN_WITHIN and high <= 1.0 + _DRAWN_WITHIN)
    return bool(low == high or drawn)


def updates(layer: NormLayer) -> int | None:
    """The counter as a count: None when it is missing, or no whole number from 0 on (BN111 tells that)."""
    counter = layer.counter
    if counter is None or not math.isfinite(counter) or counter < 0 or counter != int(counter):
        return None
    return int(counter)


def initial_share(layer: NormLayer) -> float | None:
    """(1 − momentum)^counter, the share of the initial 0 and 1 left in the running statistics.

    PyTorch's default stands for a momentum that the artifact does not say. None where the share means nothing: no
    counter, a counter of 0, no statistics, or a momentum of 0.
    """
    counter = layer.counter
    if layer.mean is None or counter is None or not (0 < counter < math.inf):
        return None
    if layer.momentum is CUMULATIVE:
        return 0.0
    momentum = layer.momentum if isinstance(layer.momentum, float) else PYTORCH_MOMENTUM
    return (1.0 - momentum) ** counter if 0 < momentum <= 1 else None


def was_trained(layer: NormLayer) -> bool:
    """Whether the file proves training: the counter moved, or weight or bias left their initial values."""
    return bool(updates(layer)) or not has_initial_affine(layer)


def is_fresh(layers: Iterable[NormLayer]) -> bool:
    """Whether all of these batch norms are as they were built: a model that was never trained."""
    layers = list(layers)
    if not all(is_virgin(layer) and not updates(layer) for layer in layers):
        return False
    return all(has_initial_affine(layer) for layer in layers) or has_drawn_affines(layers)


def is_absorbed(layers: Sequence[NormLayer], tolerance: float = ABSORBED) -> bool:
    """Whether the statistics of all these batch norms seem to stand in their weights and biases: mean 0 and one
    variance near 1 everywhere, no counters, and trained affines, as Caffe2's frozen norms have them.

    One layer alone proves no such convention: its statistics may just as well be missing.
    """
    variance = one_variance(layers[0]) if len(layers) > 1 else None
    rounding = 1.001  # 1 − epsilon as float32 is off by up to 6e-8
    if variance is None or abs(variance - 1.0) > tolerance * rounding:
        return False
    same = all(one_variance(layer) == variance and layer.num_batches_tracked is None for layer in layers)
    return same and not all(has_initial_affine(layer) for layer in layers)


def one_variance(layer: NormLayer) -> float | None:
    """The variance that all channels share while all means are 0."""
    mean, var = layer.mean, layer.var
    if mean is None or var is None or not var.size or mean.any():
        return None
    first = var.flat[0]
    return float(first) if (var == first).all() else None


def has_drawn_affines(layers: Sequence[NormLayer]) -> bool:
    """Whether the weights of all these layers look drawn from one normal distribution, and the biases from another.

    RepVGG draws both (N(0.1, 0.1) and N(0, 0.1) in timm 1.0). Training moves each layer by its own amount: means that
    differ by more than 5 standard errors, spreads that differ by more, or values that lie otherwise than a normal
    distribution's say that it was not an initialiser. Never of few layers, where chance hides such differences, nor
    where a counter is missing or has counted.
    """
    if len(layers) < _FEWEST_DRAWN or any(updates(layer) != 0 for layer in layers):
        return False
    affines = [[layer.gamma for layer in layers], [layer.beta for layer in layers]]
    arrays = [[array for array in alike if array is not None and array.size] for alike in affines]
    return all(len(alike) == len(layers) and _is_one_normal(alike) for alike in arrays)


def _is_one_normal(arrays: list[NDArray[np.float64]]) -> bool:
    import numpy as np

    pooled = np.concatenate(arrays)
    with np.errstate(over="ignore", invalid="ignore"):
        center, spread = float(pooled.mean()), float(pooled.std())
    if not 0.0 < spread < math.inf:
        return False
    for array in arrays:
        errors = _STANDARD_ERRORS / math.sqrt(array.size)
        if abs(float(array.mean()) - center) > errors * spread:
            return False
        if abs(float(array.std()) / spread - 1.0) > errors / math.sqrt(2.0) + 1.0 / array.size:
            return False
    inner = float((abs(pooled - center) < _QUARTILE * spread).mean())
    return abs(inner - 0.5) < _STANDARD_ERRORS * 0.5 / math.sqrt(pooled.size)
