"""What an artifact says of one channel, and which statistics it selects."""

from __future__ import annotations

from bnaudit.arithmetic import PYTORCH_EPS, PYTORCH_MOMENTUM
from bnaudit.description import Carrier, NormKind, NormLayer, Part, StoredTensor
from bnaudit.tracing.trace_values import ChannelState

LEARNS_STATISTICS = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH, NormKind.UNKNOWN)


def state_of(layer: NormLayer, channel: int) -> ChannelState:
    """The channel's numbers. Epsilon and momentum are PyTorch's defaults where the artifact does not say."""
    five = {
        "mean": layer.running_mean,
        "var": layer.running_var,
        "gamma": layer.weight,
        "beta": layer.bias,
        "counter": layer.num_batches_tracked,
    }
    values = {name: _value(tensor, channel) for name, tensor in five.items() if name != "counter"}
    return ChannelState(
        **values,
        counter=layer.counter,
        eps=PYTORCH_EPS if layer.eps is None else layer.eps,
        eps_assumed=layer.eps is None,
        momentum=PYTORCH_MOMENTUM if layer.momentum is None else layer.momentum,
        momentum_assumed=layer.momentum is None,
        dtypes=tuple((name, tensor.dtype) for name, tensor in five.items() if tensor is not None),
        absent=tuple((name, _absence(name, layer, five[name])) for name, value in values.items() if value is None),
    )


def mode_of(layer: NormLayer, part: Part) -> str:
    """Which statistics the artifact selects as it is, in one sentence."""
    if not depends_on_mode(layer):
        return "its arithmetic is the same in both modes"
    if layer.graph_training is not None:
        return (
            "training, written into the graph: the batch decides, whatever eval() says"
            if layer.graph_training
            else "eval, written into the graph: the stored statistics decide"
        )
    if layer.training is not None:
        return (
            "saved in training mode: the batch decides until eval() is called"
            if layer.training
            else "eval: the stored statistics decide"
        )
    if part.carrier is Carrier.STATE_DICT:
        return "a state dict holds no mode: train() and eval() in the code that loads it decide"
    return "the artifact does not say"


def depends_on_mode(layer: NormLayer) -> bool:
    """Whether train() and eval() select different statistics."""
    if layer.kind is NormKind.FROZEN_BATCH:
        return False
    if layer.kind is NormKind.INSTANCE:
        return layer.tracks_statistics is True or layer.running_mean is not None
    return layer.kind in LEARNS_STATISTICS and layer.tracks_statistics is not False


def _value(tensor: StoredTensor | None, channel: int) -> float | None:
    if tensor is None or tensor.values is None or not tensor.values.size:
        return None
    flat = tensor.values.reshape(-1)
    return float(flat[channel]) if channel < len(flat) else (float(flat[0]) if len(flat) == 1 else None)


def _absence(name: str, layer: NormLayer, tensor: StoredTensor | None) -> str:
    if tensor is not None:
        return tensor.absence or "it has no value for this channel"
    if name in ("gamma", "beta"):
        neutral = "1" if name == "gamma" else "0"
        return f"none: it counts as {neutral}"
    if layer.tracks_statistics is False or layer.kind not in LEARNS_STATISTICS:
        return "none: the layer keeps no running statistics"
    return "not in the file"
