"""Operators that change the element type, or bring a constant into the graph; see numpy_ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bnaudit.reading.onnx.dtypes import DTYPES, round_to_bfloat16
from bnaudit.reading.onnx.scope import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_VALUES = 1 << 20
"""Elements of one evaluated constant: far more than a norm layer has channels."""


class Constant(NamedTuple):
    """An evaluated value in its own type (`dtype`); bfloat16 stands in a float32 array."""

    array: NDArray[Any]
    dtype: str


_EARLY_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}
_WHOLE_RANGE = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


def constant(site: Site, arguments: list[Constant | None]) -> Constant:
    """Constant: the one of its attributes that is there."""
    import numpy as np

    attributes = {name: site.attribute(name) for name in site.node.attributes}
    tensor = next((found.tensor or found.sparse for found in attributes.values() if found), None)
    if tensor is not None:
        count = 1
        for size in tensor.shape:
            count *= size
        if count > MOST_VALUES:
            raise ValueError("too many values")
        return Constant(tensor.native(), tensor.dtype)
    for name, found in attributes.items():
        if found is None:
            continue
        if name == "value_float":
            return Constant(np.array(found.real, np.float32), "float32")
        if name == "value_floats":
            return Constant(np.array(found.floats, np.float32), "float32")
        if name == "value_int":
            return Constant(np.array(found.i, np.int64), "int64")
        if name == "value_ints":
            return Constant(np.array(found.integers, np.int64), "int64")
    raise ValueError("a constant of no number")


def cast(site: Site, arguments: list[Constant | None]) -> Constant:
    """Cast; opsets before 6 name the type in words."""
    target = site.attribute("to")
    if target is None:
        raise ValueError("a cast to nothing")
    if target.text is not None:
        return as_type(_given(arguments, 0), _EARLY_NAMES.get(target.text, target.text.lower()))
    return as_type(_given(arguments, 0), DTYPES[target.i or 0])


def dequantize(site: Site, arguments: list[Constant | None]) -> Constant:
    """DequantizeLinear: (x - zero point) × scale, for the whole tensor, along an axis, or in blocks."""
    import numpy as np

    quantized, scale = _given(arguments, 0).array, _given(arguments, 1)
    zero = arguments[2] if len(arguments) > 2 else None
    step = _along(site, scale.array, quantized)
    shift = _along(site, zero.array, quantized) if zero else np.zeros((), np.int32)
    working = scale.array.dtype
    values = (quantized.astype(np.int32) - shift.astype(np.int32)).astype(working) * step
    if scale.dtype == "bfloat16":
        return Constant(round_to_bfloat16(values).reshape(values.shape), "bfloat16")
    return Constant(values, scale.dtype)


def quantize(site: Site, arguments: list[Constant | None]) -> Constant:
    """QuantizeLinear: x ÷ scale to the nearest even, plus the zero point, kept in range."""
    import numpy as np

    array, scale = _given(arguments, 0).array, _given(arguments, 1).array
    zero = arguments[2] if len(arguments) > 2 else None
    dtype = zero.dtype if zero else DTYPES.get(site.integer("output_dtype", 2), "")
    low, high = _WHOLE_RANGE[dtype]
    shift = _along(site, zero.array, array).astype(np.int32) if zero else np.zeros((), np.int32)
    rounded = np.rint(array / _along(site, scale, array)) + shift
    return Constant(np.clip(rounded, low, high).astype(np.dtype(dtype)), dtype)


def as_type(value: Constant, dtype: str) -> Constant:
    """The same values in another element type. Raises TypeError for one that NumPy does not have."""
    import numpy as np

    if dtype == "bfloat16":
        array = value.array.astype(np.float32)
        return Constant(round_to_bfloat16(array).reshape(array.shape), dtype)
    return Constant(value.array.astype(np.dtype(dtype)), dtype)


def _along(site: Site, parameter: NDArray[Any], array: NDArray[Any]) -> NDArray[Any]:
    """A scale or zero point in a shape that broadcasts against the quantized tensor."""
    import numpy as np

    if parameter.size == 1:
        return parameter.reshape(())
    axis = site.integer("axis", 1) % max(array.ndim, 1)
    block = site.integer("block_size", 0)
    if block:
        return np.repeat(parameter, block, axis=axis).take(range(array.shape[axis]), axis=axis)
    return parameter.reshape([-1 if position == axis else 1 for position in range(array.ndim)])


def _given(arguments: list[Constant | None], index: int) -> Constant:
    argument = arguments[index]
    if argument is None:
        raise ValueError("an input is missing")
    return argument
