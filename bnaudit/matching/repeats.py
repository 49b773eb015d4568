"""A norm that a graph holds over batch × channels, as the one over channels that it repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.description import NormLayer, StoredTensor
from bnaudit.records import replace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PER_CHANNEL = ("weight", "bias", "running_mean", "running_var")


def unrepeated(layer: NormLayer, like: NormLayer) -> NormLayer:
    """The layer with the channels of `like`, where all its tensors repeat as many; else the layer itself.

    An instance norm with running statistics is exported by PyTorch (torch/onnx, `instance_norm`) as a
    BatchNormalization over the channels of all inputs of the batch, with each tensor once for each of them.
    """
    own, channels = layer.channels, like.channels
    if not own or not channels or own <= channels or own % channels:
        return layer
    once = {name: _once(tensor, channels) for name in _PER_CHANNEL if (tensor := getattr(layer, name)) is not None}
    if not once or None in once.values():
        return layer
    return replace(layer, declared_channels=channels, **once)


def is_repeated(one: NormLayer, other: NormLayer) -> bool:
    """Whether both have as many channels, or one repeats as many as the other has."""
    return unrepeated(one, other).channels == unrepeated(other, one).channels


def _once(tensor: StoredTensor, channels: int) -> StoredTensor | None:
    """The first `channels` values, where all that follow repeat them bit by bit; None where they do not."""
    values = tensor.values
    if values is None or values.ndim != 1 or values.size % channels:
        return None
    first: NDArray[np.float64] | NDArray[np.int64] = values[:channels]
    repeats = values.reshape(-1, channels)
    same = all(row.tobytes() == first.tobytes() for row in repeats)
    return replace(tensor, values=first, shape=first.shape) if same else None
