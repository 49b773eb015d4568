"""Norms written with reductions: x − mean, the mean of its square, plus epsilon, square root, division.

Recognized from the square root: behind it stands a division of the same values that were squared, before it the mean
of their squares. A mean that nothing is divided by (global average pooling, attention scores, standard deviations that
are features) is no norm, and neither is what is computed from weights alone (weight standardization).
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.description import Evidence, NormKind, NormLayer
from bnaudit.reading.onnx.analysis import Analysis, decimal, parameter_names
from bnaudit.reading.onnx.consumers import MOVING, PASSING, before, other_operand
from bnaudit.reading.onnx.group_norms import affine_behind
from bnaudit.reading.onnx.scope import Site, Value

ROOTS = {"Sqrt", "Pow"}
_REDUCTIONS = {"ReduceMean", "ReduceSum", "ReduceSumSquare"}
_MOST_STEPS = 12


class Spread(NamedTuple):
    """The mean of squares before a square root: over which axes of what, around its mean or around zero."""

    data: Value
    deviation: Value
    centred: bool
    axes: list[int]
    eps: float | None
    is_sum: bool
    """A sum that nothing divides by its number of terms."""


def spelled_out(site: Site, analysis: Analysis) -> NormLayer | None:
    """The norm around a Sqrt or Pow(±½), None when there is none."""
    if site.operator == "Pow" and analysis.constants.scalar(site.input(1)) not in (0.5, -0.5):
        return None
    argument = site.input(0)
    if argument is None or analysis.is_constant(argument):
        return None
    spread = spread_before(argument, analysis)
    if spread is None or analysis.is_constant(spread.data):
        return None
    division, factor, eps_behind = _division(site, spread, analysis)
    kind, from_input = _kind(spread, analysis)
    if division is None or (spread.is_sum and kind is not NormKind.BATCH):
        return None
    affine = affine_behind(division.output(0), analysis)
    weight = analysis.parameters.stored(factor or affine.weight, flat=True)
    bias = analysis.parameters.stored(affine.bias, flat=True)
    eps = spread.eps if spread.eps is not None else eps_behind
    return NormLayer(
        name=analysis.names.name(division, parameter_names(weight, bias)),
        kind=kind,
        evidence=Evidence.OPERATOR,
        declared_channels=_channels(spread, analysis),
        eps=None if eps is None else decimal(eps),
        affine=weight is not None or bias is not None,
        tracks_statistics=None if kind is NormKind.UNKNOWN else False,
        statistics_from_input=from_input,
        spelled_out=True,
        weight=weight,
        bias=bias,
    )


def spread_before(value: Value, analysis: Analysis) -> Spread | None:
    """What a square root is taken of: a walk back over epsilon, clamps, Bessel's factor and changes of shape."""
    eps, scaled = None, False
    for _ in range(_MOST_STEPS):
        site = value.site
        if site is None:
            return None
        if site.operator in _REDUCTIONS:
            return _reduction(site, eps, scaled, analysis)
        if site.operator == "Sub" and not any(analysis.is_constant(operand) for operand in site.inputs):
            return _difference(site, eps, analysis)
        before_it = _operand(site, analysis)
        if before_it is None:
            return None
        if site.operator in ("Add", "Max", "Clip") and eps is None:
            eps = _constant_beside(site, before_it, analysis)
        scaled = scaled or site.operator in ("Mul", "Div")
        value = before_it
    return None


def _operand(site: Site, analysis: Analysis) -> Value | None:
    """The one operand that is no constant, of a node that only shifts, scales, clamps or moves it."""
    if site.operator in MOVING or site.operator == "Clip":
        return site.input(0)
    if site.operator not in ("Add", "Mul", "Div", "Max", "Sub"):
        return None
    varying = [operand for operand in site.inputs if not analysis.is_constant(operand)]
    return varying[0] if len(varying) == 1 else None


def _constant_beside(site: Site, value: Value, analysis: Analysis) -> float | None:
    operand = site.input(1) if site.operator == "Clip" else other_operand(site, value)
    return analysis.constants.scalar(operand)


def _reduction(site: Site, eps: float | None, scaled: bool, analysis: Analysis) -> Spread | None:
    axes = analysis.axes.reduced_axes(site)
    squares = site.input(0)
    deviation = squares if site.operator == "ReduceSumSquare" else _squared(squares, analysis)
    if deviation is None or axes is None:
        return None
    deviation = before(deviation, PASSING) or deviation
    centre = deviation.site
    is_sum = site.operator != "ReduceMean" and not scaled
    if centre is not None and centre.operator == "Sub":
        for data in centre.inputs:
            if _is_mean_of(other_operand(centre, data), data):
                return Spread(before(data, PASSING) or data, deviation, True, axes, eps, is_sum)
    return Spread(deviation, deviation, False, axes, eps, is_sum)


def _difference(site: Site, eps: float | None, analysis: Analysis) -> Spread | None:
    """Mean of squares minus square of the mean."""
    first = before(site.input(0), MOVING)
    second = before(site.input(1), MOVING)
    if first is None or first.site is None or first.site.operator != "ReduceMean" or second is None:
        return None
    data = _squared(first.site.input(0), analysis)
    mean = _squared(second, analysis)
    axes = analysis.axes.reduced_axes(first.site)
    if data is None or axes is None or not _is_mean_of(mean, data):
        return None
    data = before(data, PASSING) or data
    return Spread(data, data, True, axes, eps, False)


def _squared(value: Value | None, analysis: Analysis) -> Value | None:
    """x for x·x or x²."""
    found = before(value, PASSING)
    site = found.site if found is not None else None
    if site is None:
        return None
    if site.operator == "Mul" and site.input(0) is site.input(1):
        return site.input(0)
    if site.operator == "Pow" and analysis.constants.scalar(site.input(1)) == 2:
        return site.input(0)
    return None


def _is_mean_of(mean: Value | None, data: Value) -> bool:
    """Whether a value is a mean, or a sum by a constant, of the same data."""
    for _ in range(_MOST_STEPS):
        site = mean.site if mean is not None else None
        if site is None:
            return False
        if site.operator in ("ReduceMean", "ReduceSum"):
            return before(site.input(0), PASSING) is before(data, PASSING)
        if site.operator not in MOVING and site.operator not in ("Div", "Mul"):
            return False
        mean = site.input(0)
    return False


def _division(site: Site, spread: Spread, analysis: Analysis) -> tuple[Site | None, Value | None, float | None]:
    """The node that divides the data by the root, a weight that was multiplied in before, an epsilon added behind."""
    inverted = site.operator == "Pow" and analysis.constants.scalar(site.input(1)) == -0.5
    value, factor, eps = site.output(0), None, None
    for _ in range(_MOST_STEPS):
        users = analysis.consumers.of(value)
        if value is None:
            break
        for user in users:
            divides = user.operator == "Div" and user.input(1) is value and not inverted
            multiplies = user.operator == "Mul" and inverted
            if (divides or multiplies) and _is_data(other_operand(user, value), spread, analysis):
                return user, factor, eps
        step = next((user for user in users if _goes_on(user, value, analysis)), None)
        if step is None:
            break
        operand = other_operand(step, value) if step.operator in ("Add", "Mul", "Div", "Max") else None
        if step.operator == "Reciprocal" or (step.operator == "Div" and step.input(1) is value):
            inverted = True
        elif step.operator == "Mul":
            factor = operand
        elif operand is not None and step.operator != "Div":
            eps = analysis.constants.scalar(operand)
        value = step.output(0)
    return None, None, None


def _goes_on(user: Site, value: Value, analysis: Analysis) -> bool:
    """Whether a node only shapes, clamps, shifts or inverts the root, or scales it by a constant."""
    if user.operator in MOVING or user.operator in ("Reciprocal", "Clip"):
        return user.input(0) is value
    return user.operator in ("Add", "Mul", "Div", "Max") and analysis.is_constant(other_operand(user, value))


def _is_data(value: Value | None, spread: Spread, analysis: Analysis) -> bool:
    """Whether it is what was squared, or the data it came from, perhaps centred again or times a constant."""
    for _ in range(_MOST_STEPS):
        value = before(value, PASSING)
        if value is None or value is spread.data or value is spread.deviation:
            return value is not None
        site = value.site
        if site is None:
            return False
        if site.operator == "Sub" and any(before(each, PASSING) is spread.data for each in site.inputs):
            return True
        if site.operator not in ("Mul", "Sub", "Div"):
            return False
        varying = [operand for operand in site.inputs if not analysis.is_constant(operand)]
        value = varying[0] if len(varying) == 1 else None
    return False


def _kind(spread: Spread, analysis: Analysis) -> tuple[NormKind, bool | None]:
    """What is normalized over, and whether the statistics are those of a batch of any size."""
    rank = analysis.rank(spread.data)
    axes = sorted(axis + rank if axis < 0 and rank is not None else axis for axis in spread.axes)
    if not axes or axes[0] == 0:
        if analysis.axes.is_free_batch(spread.data, 0):
            return NormKind.BATCH, True
        return (NormKind.INSTANCE if analysis.axes.is_made_one(spread.data) else NormKind.UNKNOWN), None
    if not spread.centred:
        return NormKind.RMS, None
    view = spread.data.origin().site
    if view is not None and view.operator == "Reshape" and axes in ([2], [-1]) and rank in (None, 3):
        return NormKind.GROUP, None
    spatial = (axes[0] == 2 and len(axes) >= 2) or (axes == [1, 2] and rank == 4)
    return (NormKind.INSTANCE if spatial else NormKind.LAYER), None


def _channels(spread: Spread, analysis: Analysis) -> int | None:
    if len(spread.axes) == 1 and spread.axes[0] != 0:
        return analysis.size(spread.data, spread.axes[0])
    return analysis.size(spread.data, 1)
