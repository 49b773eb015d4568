"""Norms that are one operator and normalize within a sample: instance, group, layer and RMS norm, in ONNX and in
ONNX Runtime's own domain (epsilon defaults as in onnxruntime's docs/ContribOperators.md)."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.description import Evidence, NormKind, NormLayer
from bnaudit.reading.onnx.analysis import Analysis, decimal, parameter_names
from bnaudit.reading.onnx.scope import Site, Value


class Operator(NamedTuple):
    """Where an operator has its parameters: indices of inputs, None where it has none that can be read."""

    kind: NormKind
    weight: int | None
    bias: int | None
    eps: float | None = 1e-5
    axis: int | None = None
    """The axis whose size is the number of channels."""


_MICROSOFT = {
    "SkipLayerNormalization": Operator(NormKind.LAYER, 2, 3, 1e-12, -1),
    "SkipSimplifiedLayerNormalization": Operator(NormKind.RMS, 2, None, 1e-12, -1),
    "SimplifiedLayerNormalization": Operator(NormKind.RMS, 1, None, 1e-5, -1),
    "EmbedLayerNormalization": Operator(NormKind.LAYER, 5, 6, 1e-12),
    "QEmbedLayerNormalization": Operator(NormKind.LAYER, None, None, 1e-12),
    "QOrderedLayerNormalization": Operator(NormKind.LAYER, 2, 3, 1e-5, -1),
    "GatedRMSNorm": Operator(NormKind.RMS, 1, None, 1e-5, -1),
    "RMSNormRotary": Operator(NormKind.RMS, 1, None, 1e-6),
    "BranchwiseRMSNorm": Operator(NormKind.RMS, 1, None, 1e-5),
    "GroupNorm": Operator(NormKind.GROUP, 1, 2, 1e-5, -1),
    "SkipGroupNorm": Operator(NormKind.GROUP, 1, 2, 1e-5, -1),
}

OPERATORS = {
    "InstanceNormalization": Operator(NormKind.INSTANCE, 1, 2, 1e-5, 1),
    "com.ms.internal.nhwc.InstanceNormalization": Operator(NormKind.INSTANCE, 1, 2, 1e-5, -1),
    "GroupNormalization": Operator(NormKind.GROUP, 1, 2, 1e-5, 1),
    "LayerNormalization": Operator(NormKind.LAYER, 1, 2, 1e-5, -1),
    "RMSNormalization": Operator(NormKind.RMS, 1, None, 1e-5, -1),
    "SimplifiedLayerNormalization": Operator(NormKind.RMS, 1, None, 1e-5, -1),
    **{f"com.microsoft.{name}": operator for name, operator in _MICROSOFT.items()},
}

AXIS_OPERATORS = {"MeanVarianceNormalization", "LpNormalization"}
"""Norms without parameters over axes that the node names."""


def other_norm(site: Site, analysis: Analysis) -> NormLayer | None:
    """The layer; None when what is normalized is a constant."""
    operator = OPERATORS[site.operator]
    data = site.input(0)
    if data is None or analysis.is_constant(data):
        return None
    stored = analysis.parameters.stored
    weight = stored(site.input(operator.weight)) if operator.weight is not None else None
    bias = stored(site.input(operator.bias)) if operator.bias is not None else None
    eps = operator.eps if operator.eps is None else decimal(site.real("epsilon", operator.eps))
    return NormLayer(
        name=analysis.names.name(site, parameter_names(weight, bias)),
        kind=operator.kind,
        evidence=Evidence.OPERATOR,
        class_name=site.operator,
        declared_channels=_channels(site, operator, analysis),
        eps=eps,
        affine=None if operator.weight is None else weight is not None,
        tracks_statistics=False,
        weight=weight,
        bias=bias,
    )


def axis_norm(site: Site, analysis: Analysis) -> NormLayer | None:
    """MeanVarianceNormalization and LpNormalization: a norm over the batch axis mixes the samples of a batch."""
    data = site.input(0)
    if data is None or analysis.is_constant(data):
        return None
    kind = _kind(site, data, analysis)
    return NormLayer(
        name=analysis.names.name(site),
        kind=kind,
        evidence=Evidence.OPERATOR,
        class_name=site.operator,
        affine=False,
        tracks_statistics=None if kind is NormKind.UNKNOWN else False,
        statistics_from_input=True if kind is NormKind.BATCH else None,
    )


def _kind(site: Site, data: Value, analysis: Analysis) -> NormKind:
    """Over the first axis: batch norm when that is a batch of any size, else it cannot be told."""
    axes = _axes(site)
    if 0 in axes:
        if analysis.axes.is_made_one(data):
            return NormKind.INSTANCE
        return NormKind.BATCH if analysis.axes.is_free_batch(data, 0) else NormKind.UNKNOWN
    if site.operator == "LpNormalization":
        return NormKind.RMS
    return NormKind.LAYER if 1 in axes or axes == [-1] else NormKind.INSTANCE


def _axes(site: Site) -> list[int]:
    if site.operator == "LpNormalization":
        return [site.integer("axis", -1)]
    if site.opset < 9:
        return [0, 1, 2, 3] if site.integer("across_channels", 0) else [0, 2, 3]
    axes = site.integers("axes")
    return [0, 2, 3] if axes is None else axes


def _channels(site: Site, operator: Operator, analysis: Analysis) -> int | None:
    axis = operator.axis
    if site.operator.startswith(("Layer", "RMS", "Simplified")) and site.integer("axis", -1) != -1:
        return None
    if site.operator.endswith("GroupNorm") and not site.integer("channels_last", 1):
        axis = 1
    return None if axis is None else analysis.size(site.input(0), axis)
