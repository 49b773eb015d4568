"""Faults in preparing inputs that leave their shape as it was: what production's preprocessing would have fed instead.

The given inputs are what the model should get. Each fault is a change of one array of them, batch axis first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array

Change: TypeAlias = Callable[[Array], "Array | None"]
"""None: the fault is impossible for an array of this shape and range, or changes nothing."""
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Means and standard deviations of ImageNet's channels, as torchvision's documentation gives them."""
_HALF = ((0.5,), (0.5,))
_MNIST = ((0.1307,), (0.3081,))
NORMALIZATIONS = {"ImageNet's": _IMAGENET, "0.5 and 0.5": _HALF, "MNIST's": _MNIST}
_SLACK = 0.02
"""How far from [0, 1] an image may reach: resizing with cubic weights overshoots."""


class InputFault(NamedTuple):
    """What production did to the inputs."""

    name: str
    claim: str
    advice: str
    change: Change


def changed(pool: Pool, fault: InputFault) -> Pool | None:
    """The pool as production would have fed it; None: the fault leaves these inputs as they are, or cannot happen."""
    arrays, any_changed = [], False
    for array, axis in pool.arrays():
        front = np.moveaxis(array, axis, 0)
        new = fault.change(front) if array.dtype.kind == "f" and array.ndim >= 2 else None
        if new is None or not np.isfinite(new).all() or np.array_equal(new, front):
            arrays.append(array)
            continue
        arrays.append(np.ascontiguousarray(np.moveaxis(new.astype(array.dtype), 0, axis)))
        any_changed = True
    return pool.with_arrays(arrays) if any_changed else None


def input_faults(normalizations: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]) -> Iterator[InputFault]:
    """All faults, those of these normalizations included."""
    reorder = "give the channels in the order that the model was trained with"
    yield InputFault("channel-order", "the colour channels were fed in reverse order (BGR for RGB)", reorder, _reversed)
    layout = "transpose to (N, C, H, W) before the model, do not reshape"
    yield InputFault("layout", "pixels stored as (N, H, W, C) were read as (N, C, H, W)", layout, _relaid)
    once = "divide pixels by 255 exactly once"
    yield InputFault("scaled-twice", "pixels were divided by 255 twice", once, _scaled(1 / 255, None))
    yield InputFault("not-scaled", "pixels were not divided by 255", once, _scaled(255.0, None))
    for name, values in normalizations.items():
        yield from _of_normalization(name, values, once)


def _of_normalization(
    name: str, values: tuple[tuple[float, ...], tuple[float, ...]], once: str
) -> Iterator[InputFault]:
    tag = name.lower().replace("'", "").replace(" ", "-")
    exactly = "subtract the mean and divide by the standard deviation exactly once"
    yield InputFault(
        f"normalization-missing:{tag}", f"inputs were not normalized with {name} statistics", exactly, _inverse(values)
    )
    yield InputFault(
        f"normalization-doubled:{tag}",
        f"inputs were normalized with {name} statistics once more",
        exactly,
        _forward(values),
    )
    yield InputFault(
        f"scaled-twice:{tag}",
        f"pixels were divided by 255 twice before they were normalized with {name} statistics",
        once,
        _scaled(1 / 255, values),
    )
    yield InputFault(
        f"not-scaled:{tag}",
        f"pixels were not divided by 255 before they were normalized with {name} statistics",
        once,
        _scaled(255.0, values),
    )


def _channel_axis(array: Array) -> int | None:
    """Axis of 1 or 3 channels of images, batch axis first: (N, C, H, W), or else (N, H, W, C)."""
    if array.ndim != 4:
        return None
    return next((axis for axis in (1, 3) if array.shape[axis] in (1, 3)), None)


def _reversed(array: Array) -> Array | None:
    axis = _channel_axis(array)
    return None if axis is None or array.shape[axis] != 3 else np.flip(array, axis)


def _relaid(array: Array) -> Array | None:
    """The bytes of (N, H, W, C) read as (N, C, H, W)."""
    if array.ndim != 4:
        return None
    return np.moveaxis(array, 1, 3).reshape(array.shape)


def _statistics(array: Array, values: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[Array, Array] | None:
    """Mean and deviation broadcast along the channels; None for another number of channels."""
    axis = _channel_axis(array)
    if axis is None or len(values[0]) not in (1, array.shape[axis]):
        return None
    shape = [1] * array.ndim
    shape[axis] = len(values[0])
    return np.reshape(np.asarray(values[0]), shape), np.reshape(np.asarray(values[1]), shape)


def _is_image(array: Array) -> bool:
    """Whether the values may be pixels between 0 and 1."""
    return bool(array.min() >= -_SLACK and array.max() <= 1 + _SLACK)


def _inverse(values: tuple[tuple[float, ...], tuple[float, ...]]) -> Change:
    def change(array: Array) -> Array | None:
        statistics = _statistics(array, values)
        if statistics is None or _is_image(array):
            return None
        pixels: Array = array * statistics[1] + statistics[0]
        return pixels if _is_image(pixels) else None

    return change


def _forward(values: tuple[tuple[float, ...], tuple[float, ...]]) -> Change:
    def change(array: Array) -> Array | None:
        statistics = _statistics(array, values)
        return None if statistics is None else (array - statistics[0]) / statistics[1]

    return change


def _scaled(factor: float, values: tuple[tuple[float, ...], tuple[float, ...]] | None) -> Change:
    def change(array: Array) -> Array | None:
        if values is None:
            return array * factor if array.ndim == 4 and _is_image(array) else None
        statistics = _statistics(array, values)
        pixels = None if statistics is None or _is_image(array) else array * statistics[1] + statistics[0]
        if statistics is None or pixels is None or not _is_image(pixels):
            return None
        return (pixels * factor - statistics[0]) / statistics[1]

    return change
