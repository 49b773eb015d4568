"""The operators with which graphs write constants, as NumPy functions.

Each takes the site (for its attributes and opset) and the arrays of its inputs, None for one that is left out, and
returns the array of its output, or a list of them. They raise ValueError, TypeError or IndexError where the inputs do
not fit; sizes are checked before anything is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bnaudit.reading.onnx.numpy_shapes import SHAPE_OPERATORS
from bnaudit.reading.onnx.numpy_types import MOST_VALUES, Constant, cast, constant, dequantize, quantize
from bnaudit.reading.onnx.scope import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = list["NDArray[Any] | None"]


def _unary(name: str) -> Callable[[Site, Arrays], NDArray[Any]]:
    def apply(site: Site, arrays: Arrays) -> NDArray[Any]:
        import numpy as np

        array = _given(arrays, 0)
        result: NDArray[Any] = getattr(np, name)(array)
        return result.astype(array.dtype, copy=False) if array.dtype.kind != "b" else result

    return apply


def _binary(name: str) -> Callable[[Site, Arrays], NDArray[Any]]:
    def apply(site: Site, arrays: Arrays) -> NDArray[Any]:
        import numpy as np

        left, right = _aligned(site, _given(arrays, 0), _given(arrays, 1))
        result: NDArray[Any] = getattr(np, name)(left, right)
        return result if result.dtype == bool else result.astype(left.dtype, copy=False)

    return apply


def _variadic(name: str) -> Callable[[Site, Arrays], NDArray[Any]]:
    def apply(site: Site, arrays: Arrays) -> NDArray[Any]:
        import numpy as np

        result = _given(arrays, 0)
        for array in arrays[1:]:
            if array is not None:
                result = getattr(np, name)(*_aligned(site, result, array)).astype(result.dtype, copy=False)
        return result

    return apply


def _divide(site: Site, arrays: Arrays) -> NDArray[Any]:
    """Quotients; of integers, towards zero."""
    import numpy as np

    left, right = _aligned(site, _given(arrays, 0), _given(arrays, 1))
    if left.dtype.kind == "f":
        result: NDArray[Any] = np.divide(left, right)
        return result.astype(left.dtype, copy=False)
    if not np.all(right):
        raise ValueError("division of an integer by zero")
    quotients: NDArray[Any] = np.sign(left) * np.sign(right) * (abs(left) // abs(right))
    return quotients.astype(left.dtype)


def _reciprocal(site: Site, arrays: Arrays) -> NDArray[Any]:
    array = _given(arrays, 0)
    result: NDArray[Any] = array.dtype.type(1) / array
    return result


def _sigmoid(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    array = _given(arrays, 0)
    one = array.dtype.type(1)
    result: NDArray[Any] = one / (one + np.exp(-array))
    return result


def _clip(site: Site, arrays: Arrays) -> NDArray[Any]:
    """Bounds stand in attributes before opset 11, in inputs since."""
    import numpy as np

    result = array = _given(arrays, 0)
    for index, (name, bound) in enumerate((("min", np.maximum), ("max", np.minimum)), 1):
        given = arrays[index] if index < len(arrays) else None
        attribute = site.attribute(name)
        if given is not None:
            result = bound(result, given.reshape(-1)[0])
        elif attribute is not None and attribute.real is not None:
            result = bound(result, attribute.real)
    return result.astype(array.dtype, copy=False)


def _where(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    condition, left, right = (_given(arrays, index) for index in range(3))
    _check_size(np.broadcast_shapes(condition.shape, left.shape, right.shape))
    return np.where(condition, left, right)


def _reduction(name: str, squares: bool = False, root: bool = False) -> Callable[[Site, Arrays], NDArray[Any]]:
    def apply(site: Site, arrays: Arrays) -> NDArray[Any]:
        import numpy as np

        array = _given(arrays, 0)
        given = arrays[1] if len(arrays) > 1 else None
        axes = site.integers("axes") if given is None else [int(axis) for axis in given.reshape(-1)]
        if not axes and site.integer("noop_with_empty_axes", 0):
            return array
        terms = array * array if squares else array
        result = getattr(np, name)(terms, axis=tuple(axes) if axes else None, keepdims=site.integer("keepdims", 1) != 0)
        return np.asarray(np.sqrt(result) if root else result).astype(array.dtype)

    return apply


def _given(arrays: Arrays, index: int) -> NDArray[Any]:
    array = arrays[index]
    if array is None:
        raise ValueError("an input is missing")
    return array


def _aligned(site: Site, left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The two operands, the second with the axes that opsets before 7 put in the attribute `axis`."""
    import numpy as np

    if site.opset < 7 and site.integer("broadcast", 0) and site.attribute("axis") is not None:
        behind = left.ndim - site.integer("axis", 0) % max(left.ndim, 1) - right.ndim
        right = right.reshape(right.shape + (1,) * max(behind, 0))
    _check_size(np.broadcast_shapes(left.shape, right.shape))
    return left, right


def _check_size(shape: tuple[int, ...]) -> None:
    count = 1
    for size in shape:
        count *= size
    if count > MOST_VALUES:
        raise ValueError("too many values")


_UNARY = {"Sqrt": "sqrt", "Neg": "negative", "Abs": "abs", "Exp": "exp", "Log": "log", "Floor": "floor"}
_UNARY |= {"Ceil": "ceil", "Round": "rint", "Sign": "sign", "Tanh": "tanh", "Not": "logical_not"}
_BINARY = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Pow": "power", "Equal": "equal", "Less": "less"}
_BINARY |= {"Greater": "greater", "LessOrEqual": "less_equal", "GreaterOrEqual": "greater_equal"}
_BINARY |= {"And": "logical_and", "Or": "logical_or"}
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}

OPERATORS: dict[str, Callable[[Site, Arrays], NDArray[Any] | list[NDArray[Any]]]] = {
    **{operator: _unary(name) for operator, name in _UNARY.items()},
    **{operator: _binary(name) for operator, name in _BINARY.items()},
    **{operator: _variadic(name) for operator, name in _VARIADIC.items()},
    "Div": _divide,
    "Reciprocal": _reciprocal,
    "Sigmoid": _sigmoid,
    "Relu": lambda site, arrays: _given(arrays, 0).clip(min=0),
    "Clip": _clip,
    "Where": _where,
    "ReduceMean": _reduction("mean"),
    "ReduceSum": _reduction("sum"),
    "ReduceProd": _reduction("prod"),
    "ReduceMax": _reduction("max"),
    "ReduceMin": _reduction("min"),
    "ReduceSumSquare": _reduction("sum", squares=True),
    "ReduceL2": _reduction("sum", squares=True, root=True),
    **SHAPE_OPERATORS,
}

TYPED_OPERATORS: dict[str, Callable[[Site, list[Constant | None]], Constant]] = {
    "Constant": constant,
    "Cast": cast,
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "com.microsoft.DequantizeLinear": dequantize,
    "com.microsoft.QuantizeLinear": quantize,
}
"""Those whose element type is not the one of their operands."""
