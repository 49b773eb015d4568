"""Moments of activations: each sample's own, and the batch's."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bnaudit.torch_session.fingerprints import unfolded

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALL = 1 << 14
"""Elements up to which moments are computed in float64."""
_NEAR_ZERO = 16.0
"""Squared means up to so many variances are near zero: at most 17 roundings are lost."""
_AT_ONCE = 1 << 22
"""Elements whose deviations are held at a time."""


class Scratch:
    """Memory for deviations, kept from norm to norm: getting it anew costs more than the arithmetic in it."""

    def __init__(self) -> None:
        self._memory: torch.Tensor | None = None

    def like(self, part: torch.Tensor) -> torch.Tensor:
        """Uninitialized, with the shape of `part`, contiguous. What it held before is lost."""
        kept = self._memory
        if kept is None or kept.numel() < part.numel() or kept.dtype is not part.dtype or kept.device != part.device:
            kept = self._memory = torch.empty(part.numel(), dtype=part.dtype, device=part.device)
        return kept[: part.numel()].view(part.shape)


def sample_moments(
    activation: torch.Tensor, samples: int, scratch: Scratch | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Mean and biased variance of every sample and channel, each (samples, channels), of an activation (N, C, ...).

    Where the first dimension is a multiple of the samples, consecutive entries are one sample's. None when it is not.
    Where a mean is far from zero in two passes, the second over deviations, so that it costs no digits; in float32 for
    large activations, the sums of which PyTorch adds up pairwise.
    """
    if not samples or activation.shape[0] % samples or activation.is_meta or activation.is_nested:
        return None
    folded = unfolded(activation.detach(), 0, (samples, activation.shape[0] // samples))
    wide = torch.float64 if activation.numel() <= _SMALL or activation.dtype is torch.float64 else torch.float32
    parts = max(1, min(samples, -(-activation.numel() // _AT_ONCE)))
    scratch = scratch or Scratch()
    found = [_moments(part.to(wide), scratch) for part in folded.tensor_split(parts)]
    mean, var = (torch.cat(values).to(torch.float64).cpu().numpy() for values in zip(*found, strict=True))
    return _read_only(mean), _read_only(var)


def _moments(part: torch.Tensor, scratch: Scratch) -> tuple[torch.Tensor, torch.Tensor]:
    """Of (samples, entries, channels, ...)."""
    dims = (1, *range(3, part.dim()))
    mean = part.mean(dims, keepdim=True)
    if part.dtype is torch.float32:
        # E[x²] − E[x]² needs no memory for deviations, and is exact to (1 + mean²/var) roundings.
        squares = torch.linalg.vector_norm(part, dim=dims, keepdim=True).square_() / prod(
            part.shape[dim] for dim in dims
        )
        var = squares - mean * mean
        if bool((mean * mean <= _NEAR_ZERO * var).all()):
            return mean.flatten(1), var.flatten(1)
    deviation = torch.sub(part, mean, out=scratch.like(part))
    return mean.flatten(1), deviation.mul_(deviation).mean(dims)


def merged(mean: NDArray[np.float64], var: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The batch's mean and biased variance, (channels,), from those of samples with equally many values."""
    whole = mean.mean(0)
    return _read_only(whole), _read_only(var.mean(0) + ((mean - whole) ** 2).mean(0))


def batch_moments(activation: torch.Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and biased variance over all but the second dimension, in float64."""
    var, mean = torch.var_mean(activation.detach().double(), (0, *range(2, activation.dim())), correction=0)
    return as_float64(mean), as_float64(var)


def as_float64(tensor: torch.Tensor) -> NDArray[np.float64]:
    """A copy of a vector on the host."""
    return _read_only(np.array(tensor.detach().to("cpu", torch.float64).numpy(), copy=tensor.dtype is torch.float64))


def variance_of(inverse: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
    """The biased variance behind 1 / √(variance + ε), what batch norm's kernels return."""
    with np.errstate(divide="ignore", over="ignore"):
        return _read_only(np.maximum(1.0 / (inverse * inverse) - eps, 0.0))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
