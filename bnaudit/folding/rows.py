"""The weights of any convolution or linear layer as one row per output channel, or per input channel."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.comparison import LinearLayer, Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Form(NamedTuple):
    """How a stored weight is meant."""

    transposed: bool
    """(in, out ÷ groups, …) instead of (out, in ÷ groups, …)."""
    groups: int


def forms(own: LinearLayer, other: LinearLayer, channels: int, *, before: bool = False) -> tuple[Form, ...]:
    """The ways to read a pair of weights that give it so many output channels (`before`: input channels).

    What one of the two layers says holds for both; a state dict says nothing, and may leave two ways.
    """
    operator = own.operator or other.operator
    groups = own.groups or other.groups
    if operator is None:
        kinds: tuple[bool, ...] = (False, True)
    else:
        kinds = (operator == "transposed conv",)
    found = (_form(sizes(own), transposed, groups, channels, before) for transposed in kinds)
    return tuple(form for form in found if form is not None)


def _form(shape: tuple[int, ...], transposed: bool, groups: int | None, channels: int, before: bool) -> Form | None:
    """The second axis of a grouped weight counts the channels of one group only."""
    first, second = shape[:2]
    grouped = before != transposed  # the channels in question stand on the second axis
    size = second if grouped else first
    if groups is None:
        groups = channels // size if grouped and size and channels % size == 0 else 1
    fits = size * groups == channels if grouped else size == channels
    return Form(transposed, groups) if fits and groups > 0 and first % groups == 0 else None


def sizes(layer: LinearLayer) -> tuple[int, ...]:
    """The sizes of the weight with the outputs first, however it is laid out."""
    shape = layer.weight.shape
    return (*shape[:-3:-1], *shape[:-2]) if layer.output_last else shape


def grouped(layer: LinearLayer, form: Form) -> Array:
    """The weight, read now, as float64 (groups, out ÷ groups, in ÷ groups, taps). Raises UnreadableError."""
    values = _double(layer.weight)
    if layer.output_last:
        values = values.transpose(values.ndim - 1, values.ndim - 2, *range(values.ndim - 2))
    first, second, *taps = values.shape
    parts: Array = values.reshape(form.groups, first // form.groups, second, prod(taps))
    if form.transposed:
        parts = parts.transpose(0, 2, 1, 3)
    return parts


def by_output(weight: Array) -> Array:
    """(out, taps of all its inputs)"""
    return weight.reshape(weight.shape[0] * weight.shape[1], -1)


def by_input(weight: Array) -> Array:
    """(in, taps of all its outputs)"""
    rows: Array = weight.transpose(0, 2, 1, 3).reshape(weight.shape[0] * weight.shape[2], -1)
    return rows


def bias(layer: LinearLayer, outputs: int) -> Array | None:
    """The bias, read now; zeros where the layer has none, None where it does not fit. Raises UnreadableError."""
    import numpy as np

    if layer.bias is None:
        return np.zeros(outputs)
    values = _double(layer.bias).reshape(-1)
    return values if values.size == outputs else None


def operator(own: LinearLayer, other: LinearLayer, form: Form) -> str:
    """`conv`, `depthwise conv`, `transposed conv` or `linear`."""
    if form.transposed:
        return "transposed conv"
    shape = sizes(own)
    if len(shape) == 2:
        return "linear"
    groups = own.groups or other.groups
    alone = shape[1] == 1 and shape[0] > 1
    return "depthwise conv" if alone and (groups is None or groups > 1) else "conv"


def _double(values: Values) -> Array:
    loaded: Array = values.load().astype("float64", copy=False)
    return loaded
