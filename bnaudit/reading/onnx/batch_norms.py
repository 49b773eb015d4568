"""BatchNormalization of every opset: which form it has, and where its statistics come from.

Training form (onnx/docs/Changelog.md): opsets 1 to 6 while `is_test` is 0, its default; 7 to 13 with five outputs; from
14 on with `training_mode` 1. ONNX's momentum is the weight of the old statistics (default 0.9), PyTorch's that of the
new batch.
"""

from __future__ import annotations

from bnaudit.description import Evidence, NormKind, NormLayer
from bnaudit.reading.onnx.analysis import Analysis, decimal, parameter_names
from bnaudit.reading.onnx.scope import Site

BATCH_NORMS = {"BatchNormalization", "com.ms.internal.nhwc.BatchNormalization", "com.microsoft.BatchNormInternal"}


def batch_norm(site: Site, analysis: Analysis) -> NormLayer | None:
    """The layer; None for one that normalizes weights, as weight standardization does."""
    data = site.input(0)
    if data is None or analysis.is_constant(data):
        return None
    per_sample = analysis.axes.is_made_one(data)
    training = is_training_form(site)
    weight, bias, mean, var = (analysis.parameters.stored(site.input(index)) for index in range(1, 5))
    return NormLayer(
        name=analysis.names.name(site, parameter_names(mean, var, weight, bias)),
        kind=NormKind.INSTANCE if per_sample else NormKind.BATCH,
        evidence=Evidence.OPERATOR,
        class_name=site.operator,
        declared_channels=_channels(site, analysis) if not per_sample else None,
        eps=decimal(site.real("epsilon", 1e-5)),
        momentum=round(1 - decimal(site.real("momentum", 0.9)), 9),
        affine=weight is not None or bias is not None,
        tracks_statistics=_tracks(site, analysis, per_sample and training),
        graph_training=None if per_sample and training else training,
        statistics_from_input=None if per_sample or training else _from_data(site, analysis),
        weight=weight,
        bias=bias,
        running_mean=mean,
        running_var=var,
    )


def is_training_form(site: Site) -> bool:
    """Whether the node normalizes with its batch."""
    if site.operator == "com.microsoft.BatchNormInternal":
        return site.integer("training_mode", 1) != 0
    if site.opset >= 14:
        return site.integer("training_mode", 0) != 0
    if site.opset >= 7:
        return sum(1 for name in site.node.outputs if name) >= 5
    return site.integer("is_test", 0) == 0


def _from_data(site: Site, analysis: Analysis) -> bool | None:
    """Whether the statistics are computed from the input that is normalized; None: the caller gives them apart."""
    roots = analysis.dependence.roots
    data = site.input(0)
    given = [roots(value) for value in (site.input(3), site.input(4)) if value is not None]
    if not any(given):
        return False
    return True if data is not None and any(roots(data) & each for each in given) else None


def _tracks(site: Site, analysis: Analysis, uses_sample: bool) -> bool | None:
    """Whether stored statistics belong to the node; None when the caller gives them with every run."""
    if uses_sample:
        return False
    if all(analysis.is_constant(site.input(index)) for index in (3, 4)):
        return True
    return None if _from_data(site, analysis) is None else False


def _channels(site: Site, analysis: Analysis) -> int | None:
    """The size of the channel axis; statistics per activation (`spatial` 0, opsets 1 to 8) have no such axis."""
    if site.opset < 9 and site.integer("spatial", 1) == 0:
        return None
    return analysis.size(site.input(0), -1 if "nhwc" in site.operator else 1)
