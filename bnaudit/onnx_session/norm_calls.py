"""NormCalls of a graph: what each norm node normalizes over, from the shape of what it received."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper

from bnaudit.onnx_session.survey import NormNode
from bnaudit.session import NormCall, Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape = tuple[int, ...]
Statistics = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


class Extent:
    """How many values one statistic is computed from."""

    __slots__ = ("channels", "per_statistic", "spans_batch")

    def __init__(self, channels: int, per_statistic: int, spans_batch: bool) -> None:
        self.channels = channels
        self.per_statistic = per_statistic
        self.spans_batch = spans_batch
        """Whether the first axis is normalized over."""


def norm_call(
    norm: NormNode,
    node: onnx.NodeProto,
    shape: Shape,
    batch_size: int,
    *,
    trains: bool,
    batch: Statistics | None = None,
    samples: Statistics | None = None,
) -> NormCall:
    """The call of one node; `trains`: it was given its training form."""
    extent = extent_of(norm, node, shape)
    uses_batch = norm.uses_batch or trains
    layer = norm.layer
    return NormCall(
        index=norm.position,
        place=Place(module=_name(node), class_name=norm.operator, operator=norm.operator),
        layer=layer.name,
        kind=layer.kind,
        uses_batch=uses_batch,
        mixes_samples=_mixes(norm, extent, shape, batch_size) if uses_batch else False,
        values_per_statistic=extent.per_statistic,
        values_per_sample=_per_sample(extent, batch_size),
        channels=extent.channels,
        eps=layer.eps,
        momentum=layer.momentum if isinstance(layer.momentum, float) else None,
        stored_mean=layer.mean,
        stored_var=layer.var,
        batch_mean=batch[0] if batch and uses_batch else None,
        batch_var=batch[1] if batch and uses_batch else None,
        sample_mean=samples[0] if samples else None,
        sample_var=samples[1] if samples else None,
    )


def _name(node: onnx.NodeProto) -> str:
    return str(node.name or next(iter(node.output), ""))


def _mixes(norm: NormNode, extent: Extent, shape: Shape, batch_size: int) -> bool | None:
    """Batch norms do; of others only the shape speaks: a first axis that is not the batch's tells nothing."""
    if norm.layer.kind.is_batch:
        return True
    if not extent.spans_batch:
        return False
    return None if batch_size == 1 or shape[:1] != (batch_size,) else True


def _per_sample(extent: Extent, batch_size: int) -> int:
    if not extent.spans_batch or extent.per_statistic % batch_size:
        return extent.per_statistic
    return extent.per_statistic // batch_size


def extent_of(norm: NormNode, node: onnx.NodeProto, shape: Shape) -> Extent:
    """Channels and values of one norm that received a value of this shape."""
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    operator = norm.operator.rpartition(".")[2]
    rank = len(shape)
    if operator in ("BatchNormalization", "BatchNormInternal") and not norm.layer.kind.is_batch:
        return Extent(shape[1] if rank > 1 else 1, prod(shape[2:]), False)  # a view of each sample: (1, N·C, …)
    if operator in ("BatchNormalization", "BatchNormInternal"):
        return _over_all_but(1 if "nhwc" not in norm.operator else rank - 1, shape)
    if operator == "InstanceNormalization":
        channels = norm.layer.channels or (shape[1] if rank > 1 else 1)
        return Extent(channels, prod(shape[2:]), False)
    if operator in ("GroupNormalization", "GroupNorm", "SkipGroupNorm"):
        return _groups(attributes, operator, shape)
    axes = _axes(norm, operator, attributes, rank)
    per_statistic = prod(shape[axis] for axis in axes)
    channels = norm.layer.channels or (
        shape[1] if 0 in axes and 1 not in axes and rank > 1 else shape[-1] if shape else 1
    )
    return Extent(channels, per_statistic, 0 in axes)


def _over_all_but(channel: int, shape: Shape) -> Extent:
    channels = shape[channel] if len(shape) > 1 else 1
    per_statistic = prod(size for axis, size in enumerate(shape) if axis != channel or len(shape) == 1)
    return Extent(channels, per_statistic, True)


def _groups(attributes: Mapping[str, Any], operator: str, shape: Shape) -> Extent:
    last = operator != "GroupNormalization" and bool(attributes.get("channels_last", 1))
    channels = shape[-1] if last else shape[1]
    groups = int(attributes.get("num_groups", attributes.get("groups", 1))) or 1
    return Extent(channels, prod(shape[1:]) // groups, False)


def _axes(norm: NormNode, operator: str, attributes: Mapping[str, Any], rank: int) -> list[int]:
    """The axes that are normalized over, none negative."""
    if norm.axes is not None:
        axes = list(norm.axes) or list(range(rank))
    elif operator == "MeanVarianceNormalization":
        across = [0, 1, 2, 3] if attributes.get("across_channels", 0) else [0, 2, 3]
        axes = list(attributes.get("axes", across))
    elif operator == "LpNormalization":
        axes = [int(attributes.get("axis", -1))]
    else:
        first = int(attributes.get("axis", -1)) if operator in _FROM_AXIS_ON else -1
        axes = list(range(first % rank if rank else 0, rank))
    return sorted({axis % rank for axis in axes if -rank <= axis < rank})


_FROM_AXIS_ON = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}
