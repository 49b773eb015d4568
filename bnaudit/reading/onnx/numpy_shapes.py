"""Operators that move values about or make shapes, as NumPy functions; see numpy_ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bnaudit.reading.onnx.numpy_types import MOST_VALUES
from bnaudit.reading.onnx.scope import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = list["NDArray[Any] | None"]


def reshaped(shape: Sequence[int], target: Sequence[int], allow_zero: bool) -> list[int]:
    """The sizes that Reshape makes: 0 copies a size unless `allow_zero`, -1 stays -1."""
    if allow_zero:
        return list(target)
    return [shape[axis] if size == 0 else size for axis, size in enumerate(target)]


def numbers(site: Site, arrays: Arrays, index: int, attribute: str) -> list[int] | None:
    """Integers that stand in an attribute in early opsets and in an input in later ones; None: in neither."""
    array = arrays[index] if index < len(arrays) else None
    if array is not None:
        return [int(number) for number in array.reshape(-1)]
    return site.integers(attribute)


def _reshape(site: Site, arrays: Arrays) -> NDArray[Any]:
    array = _first(arrays)
    target = numbers(site, arrays, 1, "shape") or []
    return array.reshape(reshaped(array.shape, target, site.integer("allowzero", 0) != 0))


def _flatten(site: Site, arrays: Arrays) -> NDArray[Any]:
    array = _first(arrays)
    axis = site.integer("axis", 1)
    front = 1
    for size in array.shape[:axis]:
        front *= size
    return array.reshape(front, array.size // max(front, 1))


def _squeeze(site: Site, arrays: Arrays) -> NDArray[Any]:
    axes = numbers(site, arrays, 1, "axes")
    return _first(arrays).squeeze(tuple(axes) if axes is not None else None)


def _unsqueeze(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    unsqueezed: NDArray[Any] = np.expand_dims(_first(arrays), tuple(numbers(site, arrays, 1, "axes") or []))
    return unsqueezed


def _transpose(site: Site, arrays: Arrays) -> NDArray[Any]:
    transposed: NDArray[Any] = _first(arrays).transpose(site.integers("perm"))
    return transposed


def _expand(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    array = _first(arrays)
    shape = np.broadcast_shapes(array.shape, tuple(_checked(numbers(site, arrays, 1, "shape") or [])))
    _checked(shape)
    return np.broadcast_to(array, shape)


def _tile(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    array = _first(arrays)
    repeats = numbers(site, arrays, 1, "repeats") or []
    if site.opset < 6:
        axis = (numbers(site, arrays, 2, "axis") or [0])[0]
        repeats = [repeats[0] if position == axis else 1 for position in range(array.ndim)]
    _checked([size * count for size, count in zip(array.shape, repeats, strict=True)])
    return np.tile(array, repeats)


def _constant_of_shape(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    sizes = _checked(numbers(site, arrays, 0, "shape") or [])
    attribute = site.attribute("value")
    filling = np.zeros(1, np.float32)
    if attribute is not None and attribute.tensor is not None:
        filling = attribute.tensor.native().reshape(-1)
    if filling.size != 1:
        raise ValueError("a filling of several values")
    return np.full(sizes, filling[0], filling.dtype)


def _concat(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    parts = [array for array in arrays if array is not None]
    if sum(part.size for part in parts) > MOST_VALUES:
        raise ValueError("too many values")
    return np.concatenate(parts, axis=site.integer("axis", 1 if site.opset < 4 else 0))


def _split(site: Site, arrays: Arrays) -> list[NDArray[Any]]:
    import numpy as np

    array = _first(arrays)
    axis = site.integer("axis", 0)
    sizes = numbers(site, arrays, 1, "split")
    if sizes is None:
        count = len(site.node.outputs)
        size = -(-array.shape[axis] // count)
        sizes = [size] * (count - 1)
    return np.split(array, np.cumsum(sizes[: len(site.node.outputs) - 1]).tolist(), axis=axis)


def _slice(site: Site, arrays: Arrays) -> NDArray[Any]:
    array = _first(arrays)
    starts = numbers(site, arrays, 1, "starts") or []
    ends = numbers(site, arrays, 2, "ends") or []
    axes = numbers(site, arrays, 3, "axes") or list(range(len(starts)))
    steps = numbers(site, arrays, 4, "steps") or [1] * len(starts)
    cuts = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    cut: NDArray[Any] = array[tuple(cuts)]
    return cut


def _gather(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    array, indices = _first(arrays), arrays[1]
    if indices is None or indices.size * array.size > MOST_VALUES * max(array.shape[site.integer("axis", 0)], 1):
        raise ValueError("too many values")
    return np.take(array, indices, axis=site.integer("axis", 0))


def _range(site: Site, arrays: Arrays) -> NDArray[Any]:
    import numpy as np

    start, limit, delta = (array.reshape(-1)[0] for array in arrays if array is not None)
    if delta == 0 or (limit - start) / delta > MOST_VALUES:
        raise ValueError("too many values")
    return np.arange(start, limit, delta, dtype=start.dtype)


def _first(arrays: Arrays) -> NDArray[Any]:
    array = arrays[0]
    if array is None:
        raise ValueError("an input is missing")
    return array


def _checked(sizes: Sequence[int]) -> Sequence[int]:
    count = 1
    for size in sizes:
        if size < 0:
            raise ValueError("a negative size")
        count *= size
    if count > MOST_VALUES:
        raise ValueError("too many values")
    return sizes


SHAPE_OPERATORS: dict[str, Callable[[Site, Arrays], NDArray[Any] | list[NDArray[Any]]]] = {
    "Identity": lambda site, arrays: _first(arrays),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "ConstantOfShape": _constant_of_shape,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Range": _range,
}
