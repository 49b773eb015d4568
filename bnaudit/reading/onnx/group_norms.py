"""GroupNorm as PyTorch's exporters write it: Reshape to (N, groups, -1), InstanceNormalization with scale 1 and bias 0,
Reshape back, then Mul and Add with the parameters (torch.onnx.symbolic_opset9.group_norm, onnxscript aten_group_norm).
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.description import Evidence, NormKind, NormLayer
from bnaudit.reading.onnx.analysis import Analysis, decimal, parameter_names
from bnaudit.reading.onnx.consumers import MOVING, PASSING, before, other_operand
from bnaudit.reading.onnx.scope import Site, Value


class Affine(NamedTuple):
    """What a value is multiplied with and what is added then; None: nothing constant."""

    weight: Value | None
    bias: Value | None


def affine_behind(value: Value | None, analysis: Analysis) -> Affine:
    """The Mul and Add with constants that follow a normalized value, directly or behind nodes that hand it on."""
    weight = bias = None
    for _ in range(8):
        site = analysis.consumers.only(value)
        if site is None or value is None:
            break
        operand = other_operand(site, value) if site.operator in ("Mul", "Add") else None
        if operand is not None and analysis.is_constant(operand):
            if site.operator == "Mul" and weight is None and bias is None:
                weight = operand
            elif site.operator == "Add" and bias is None:
                bias = operand
            else:
                break
        elif site.operator not in PASSING:
            break
        value = site.output(0)
    return Affine(weight, bias)


def group_norm(site: Site, analysis: Analysis) -> NormLayer | None:
    """The group norm around an InstanceNormalization, None when it is an instance norm."""
    if site.operator != "InstanceNormalization":
        return None
    data = before(site.input(0), PASSING)
    view = data.site if data is not None else None
    back = _view_back(site, analysis)
    if view is None or view.operator != "Reshape" or back is None or not _is_plain(site, analysis):
        return None
    whole = view.input(0)
    if whole is None or analysis.is_constant(whole):
        return None
    affine = affine_behind(back.output(0), analysis)
    weight = analysis.parameters.stored(affine.weight, flat=True)
    bias = analysis.parameters.stored(affine.bias, flat=True)
    return NormLayer(
        name=analysis.names.name(site, parameter_names(weight, bias)),
        kind=NormKind.GROUP,
        evidence=Evidence.OPERATOR,
        class_name=site.operator,
        declared_channels=analysis.size(whole, 1),
        eps=decimal(site.real("epsilon", 1e-5)),
        affine=weight is not None,
        tracks_statistics=False,
        weight=weight,
        bias=bias,
    )


def _view_back(site: Site, analysis: Analysis) -> Site | None:
    """The one node behind that gives the normalized groups their old shape."""
    value = site.output(0)
    for _ in range(4):
        found = analysis.consumers.only(value)
        if found is None or found.operator == "Reshape":
            return found
        if found.operator not in PASSING:
            return None
        value = found.output(0)
    return None


def _is_plain(site: Site, analysis: Analysis) -> bool:
    """Whether its own scale is 1 and its bias 0 throughout, and neither is a stored parameter."""
    return all(_is_filled(site.input(index), filling, analysis) for index, filling in ((1, 1.0), (2, 0.0)))


def _is_filled(value: Value | None, filling: float, analysis: Analysis) -> bool:
    base = before(value, MOVING)
    if value is None or base is None or not analysis.is_constant(value):
        return False
    number = analysis.constants.scalar(base)
    if number is not None:
        return number == filling
    stored = analysis.parameters.stored(value)
    return stored is not None and stored.values is not None and bool((stored.values == filling).all())
