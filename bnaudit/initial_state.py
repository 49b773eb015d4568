"""What a batch norm looks like before training: mean 0, variance 1, counter 0, weight constant or drawn, bias 0."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bnaudit.arithmetic import PYTORCH_MOMENTUM
from bnaudit.description import CUMULATIVE, NormKind, NormLayer

LEARNS_STATISTICS = (NormKind.BATCH, NormKind.SYNC_BATCH)
"""The batch norms that update statistics and count the updates; frozen ones do neither."""
_DRAWN_WITHIN = 0.1
"""Of 1: five standard deviations of N(1, 0.02)."""


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
    return all(is_virgin(layer) and not was_trained(layer) for layer in layers)
