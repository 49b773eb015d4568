"""What a batch norm looks like before training: mean 0, variance 1, counter 0, weight constant, bias 0."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bnaudit.description import NormKind, NormLayer

LEARNS_STATISTICS = (NormKind.BATCH, NormKind.SYNC_BATCH)
"""The batch norms that update statistics and count the updates; frozen ones do neither."""


def is_virgin(layer: NormLayer) -> bool:
    """Mean exactly 0 and variance exactly 1 in all channels; False without values."""
    mean, var = layer.mean, layer.var
    if mean is None or var is None or not mean.size or not var.size:
        return False
    # The first channel decides nearly always, and costs least.
    return mean.flat[0] == 0.0 and var.flat[0] == 1.0 and not mean.any() and bool((var == 1.0).all())


def has_initial_affine(layer: NormLayer) -> bool:
    """Nothing shows that weight and bias were trained: bias 0, weight constant over the channels or within [0, 1].

    PyTorch before 1.2 drew the weight from U(0, 1). Without affine parameters there is nothing to show it.
    """
    gamma, beta = layer.gamma, layer.beta
    if beta is not None and beta.any():
        return False
    if gamma is None or not gamma.size:
        return True
    low, high = gamma.min(), gamma.max()
    return bool(low == high or (low >= 0.0 and high <= 1.0))


def updates(layer: NormLayer) -> int | None:
    """The counter as a count: None when it is missing, or no whole number from 0 on (BN111 tells that)."""
    counter = layer.counter
    if counter is None or not math.isfinite(counter) or counter < 0 or counter != int(counter):
        return None
    return int(counter)


def was_trained(layer: NormLayer) -> bool:
    """Whether the file proves training: the counter moved, or weight or bias left their initial values."""
    return bool(updates(layer)) or not has_initial_affine(layer)


def is_fresh(layers: Iterable[NormLayer]) -> bool:
    """Whether all of these batch norms are as they were built: a model that was never trained."""
    return all(is_virgin(layer) and not was_trained(layer) for layer in layers)
