"""What one normalization operator normalizes over and with, read from its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from bnaudit.description import NormKind
from bnaudit.torch_session.operators import Normalization, Statistics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]


_KEEPING = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH, NormKind.INSTANCE)


class Extent(NamedTuple):
    """What one statistic covers."""

    mixes: bool | None
    channels: int
    per_statistic: int
    per_sample: int


class Reading(NamedTuple):
    """A normalization operator's arguments, whatever it calls them."""

    kind: NormKind
    uses_batch: bool
    activation: torch.Tensor
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    running_mean: torch.Tensor | None
    running_var: torch.Tensor | None
    given: tuple[torch.Tensor, torch.Tensor] | None
    """The batch's mean and 1 / √(variance + ε), computed before."""
    eps: float | None
    momentum: float | None
    updates: bool
    extent: Extent


def read(
    norm: Normalization, values: Mapping[str, Any], *, size: int, layer_kind: NormKind | None, is_parameter: bool
) -> Reading:
    """`layer_kind`: of the innermost module; `is_parameter`: the operator normalizes a parameter, not an activation."""
    activation, mean, var, given = values["input"], values.get("running_mean"), values.get("running_var"), None
    uses_batch = _uses_batch(norm, values)
    if norm.statistics is Statistics.GIVEN:
        mean, var, given = None, None, (values["running_mean"], values["invstd"])
    kind = norm.kind
    if kind is NormKind.BATCH:
        kind = _batch_or_instance(activation.shape, size, layer_kind, is_parameter, stored=mean is not None)
    keeps = kind in _KEEPING
    return Reading(
        kind=kind,
        uses_batch=uses_batch,
        activation=activation,
        weight=values.get("weight"),
        bias=values.get("bias"),
        running_mean=mean if keeps else None,
        running_var=var if keeps else None,
        given=given,
        eps=values.get("eps"),
        momentum=values.get("momentum") if keeps else None,
        updates=uses_batch and keeps and mean is not None,
        extent=extent(kind, activation.shape, values, size, is_parameter, layer_kind),
    )


def stored(reading: Reading) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The running statistics that the operator got, (channels,), copied now: the kernel writes into them.

    Instance norm repeats its layer's for every sample.
    """
    if reading.running_mean is None or reading.running_var is None or reading.running_mean.is_meta:
        return None, None
    channels = reading.extent.channels
    return reading.running_mean[:channels].clone(), reading.running_var[:channels].clone()


def extent(
    kind: NormKind,
    shape: Sequence[int],
    values: Mapping[str, Any],
    size: int,
    is_parameter: bool,
    layer_kind: NormKind | None,
) -> Extent:
    """By the shape alone, for samples in the first dimension or folded into it."""
    if kind is NormKind.LAYER or kind is NormKind.RMS:
        return _of_trailing(shape, values, size)
    if kind is NormKind.GROUP:
        return _of_groups(shape, values, size)
    channels = shape[1] if len(shape) > 1 else 1
    values_each = prod(shape) // max(channels, 1)
    if kind is NormKind.INSTANCE:
        mixes = False if is_parameter or layer_kind is NormKind.INSTANCE or channels % size == 0 else None
        folded = shape[0] == 1 and channels % size == 0 and not is_parameter
        own = channels // size if folded else channels
        each = values_each // shape[0]
        return Extent(mixes, own, each, each)
    return Extent(_mixes(shape, size, layer_kind, is_parameter), channels, values_each, max(1, values_each // size))


def _mixes(shape: Sequence[int], size: int, layer_kind: NormKind | None, is_parameter: bool) -> bool | None:
    if is_parameter:
        return False
    if shape[0] % size:
        return None
    return True if size > 1 or layer_kind is not None else None


def _batch_or_instance(
    shape: Sequence[int], size: int, layer_kind: NormKind | None, is_parameter: bool, *, stored: bool
) -> NormKind:
    """Instance norm and weight standardization run batch norm on a view (1, N·C, ...) or (1, C, ...)."""
    if layer_kind in (NormKind.INSTANCE, NormKind.SYNC_BATCH, NormKind.BATCH):
        return layer_kind
    if is_parameter:
        return NormKind.INSTANCE
    return NormKind.INSTANCE if shape[0] == 1 and size > 1 and shape[1] % size == 0 else NormKind.BATCH


def _of_trailing(shape: Sequence[int], values: Mapping[str, Any], size: int) -> Extent:
    """Layer and RMS norm: statistics over the last dimensions, which may include the batch's."""
    rank = len(values.get("normalized_shape") or (1,))
    outer, each = shape[: len(shape) - rank], prod(shape[len(shape) - rank :])
    if not outer:
        return Extent(True if size > 1 else None, each, each, max(1, each // size))
    mixes = False if prod(outer) % size == 0 else None
    return Extent(mixes, each, each, each)


def _of_groups(shape: Sequence[int], values: Mapping[str, Any], size: int) -> Extent:
    groups = values.get("group") or 1
    channels = shape[1] if len(shape) > 1 else 1
    each = prod(shape[1:]) // groups
    return Extent(False if shape[0] % size == 0 else None, channels, each, each)


def _uses_batch(norm: Normalization, values: Mapping[str, Any]) -> bool:
    if norm.statistics is Statistics.BY_FLAG:
        return bool(values.get("training"))
    return norm.statistics is not Statistics.STORED
