"""Which groups of tensors in a state dict are norm layers, of which kind, and how we know.

A state dict holds names and values and no code. In order of strength:

* Running statistics prove a norm layer (`Evidence.STATISTICS`). It is listed as batch norm: InstanceNorm with
  tracking stores byte-identical tensors under the same class version, is a hundred times rarer, and in eval mode
  does the same arithmetic, so everything that is asked of the statistics holds for both.
* Class version 2 in `_metadata` with a 1-D weight is batch norm without its statistics or InstanceNorm with affine
  parameters: the kind is UNKNOWN (`Evidence.METADATA`). Version 1 is never PyTorch's batch norm (torchvision's frozen
  one, LayerNorm, GroupNorm), version 3 with statistics is detectron2's frozen one.
* What keeps only one of mean and variance, beside tensors that batch norm does not have (`running_std`,
  `running_covar`, EvoNorm's `v`), is another norm and not listed, unless its class version says batch norm.
* Without a version only names are left (`Evidence.AFFINE`), and they settle a kind only when they spell it.
"""

from __future__ import annotations

from collections.abc import Mapping

from bnaudit.description import Evidence, NormKind
from bnaudit.reading.checkpoints.norm_names import is_blob, segments, spoken_kind
from bnaudit.reading.tensors.tensor_refs import TensorRef

Group = dict[str, tuple[str, TensorRef]]
"""The tensors of one layer: NormLayer's field -> (stored name, where it is)."""

Verdict = tuple[NormKind, Evidence]

_BATCH_NORM_VERSION = 2
_FROZEN_VERSIONS = (1, 3)


def judge(
    layer: str, group: Group, version: int | None, groups: Mapping[str, Group], has_others: bool = False
) -> Verdict | None:
    """The kind of norm and the evidence for it; None: not a norm layer, or not one that is understood.

    `groups` are all layers by name; `has_others`: the layer has tensors that a batch norm does not have.
    """
    if "running_mean" in group or "running_var" in group or "num_batches_tracked" in group:
        if has_others and _is_torn(group) and version != _BATCH_NORM_VERSION:
            return None
        return _by_statistics(layer, group, version)
    weight = group.get("weight")
    if weight is None or len(weight[1].shape) != 1:
        return None
    if version == _BATCH_NORM_VERSION:
        return NormKind.UNKNOWN, Evidence.METADATA
    if version is not None and version > _BATCH_NORM_VERSION:
        return None
    kind = _by_name(layer, group, groups)
    return (kind, Evidence.AFFINE) if kind is not None else None


def _is_torn(group: Group) -> bool:
    return "running_mean" not in group or "running_var" not in group


def _by_statistics(layer: str, group: Group, version: int | None) -> Verdict | None:
    mean, var = group.get("running_mean"), group.get("running_var")
    counted = "num_batches_tracked" in group
    if not counted and version != _BATCH_NORM_VERSION:
        scalar = any(pair is not None and not pair[1].shape for pair in (mean, var))
        if (_is_torn(group) or scalar) and "weight" not in group and spoken_kind(segments(layer)[0]) is None:
            return None  # a moving average of something else
    if not counted and any(pair is not None and is_blob(pair[0]) for pair in (mean, var)):
        return NormKind.FROZEN_BATCH, Evidence.STATISTICS
    complete = mean is not None and var is not None and "weight" in group and "bias" in group
    if not counted and complete and version in _FROZEN_VERSIONS:
        return NormKind.FROZEN_BATCH, Evidence.STATISTICS
    return NormKind.BATCH, Evidence.STATISTICS


def _by_name(layer: str, group: Group, groups: Mapping[str, Group]) -> NormKind | None:
    channels = group["weight"][1].shape
    last, parent = segments(layer)
    kind = spoken_kind(last)
    if kind is None and last.isdigit():
        kind = spoken_kind(parent) or (NormKind.UNKNOWN if _beside_linear_map(layer, channels[0], groups) else None)
    bias = group.get("bias")
    if kind is None or (bias is not None and bias[1].shape != channels):
        return None
    return kind if bias is not None else _without_bias(kind, last)


def _without_bias(kind: NormKind, last: str) -> NormKind | None:
    # Batch, instance and group norm have weight and bias or neither. What is called `input_layernorm` or `norm` and has
    # a weight alone is RMS norm in the published language models (Llama, Mistral, T5, Qwen).
    spoken = kind in (NormKind.LAYER, NormKind.RMS) or (kind is NormKind.UNKNOWN and "norm" in last.lower())
    return NormKind.RMS if spoken else None


def _beside_linear_map(layer: str, channels: int, groups: Mapping[str, Group]) -> bool:
    """Whether the neighbour in the Sequential (`downsample.0` of `downsample.1`) is a convolution or linear layer that
    gives or takes this many channels; an activation without tensors may stand between."""
    parent, dot, last = layer.rpartition(".")
    if len(last) > 6:
        return False
    for step in (-1, 1):
        places = (f"{parent}{dot}{int(last) + step * distance}" for distance in (1, 2))
        neighbour = next((groups[place] for place in places if place in groups), None)
        weight = neighbour.get("weight") if neighbour else None
        if weight is not None and len(weight[1].shape) >= 2 and channels in weight[1].shape[:2]:
            return True
    return False
