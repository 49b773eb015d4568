"""Where the rows of a sample stand in an inner value, found by comparing its shape with that for one sample more.

The axis that grew is the batch's. Where it grew by several, the batch is flattened together with another axis:
outermost as in (N, T, C) → (N·T, C), where the rows of a sample stand together, or innermost as in (T, N, C) →
(T·N, C), where they stand N apart. A view shows which it is; other operators keep the order that they are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

Shapes = Mapping[str, tuple[int, ...]]

_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}


class Layout(NamedTuple):
    """The rows of one value."""

    axis: int = 0
    factor: int = 1
    """Entries of a sample on that axis."""
    outermost: bool = True
    """The entries of a sample stand together."""

    def row(self, array: NDArray[Any], sample: int, size: int) -> NDArray[Any]:
        """What belongs to one sample of `size`."""
        if self.factor == 1:
            return np.asarray(np.take(array, sample, self.axis))
        return array[self.place(sample, size)]

    def place(self, sample: int, size: int) -> tuple[slice, ...]:
        """An index of what belongs to one sample of `size`."""
        first = sample * self.factor
        together = self.factor == 1 or self.outermost
        part = slice(first, first + self.factor) if together else slice(sample, None, size)
        return (*(slice(None),) * self.axis, part)


def layouts(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Layout | None], shapes: Shapes, more: Shapes, size: int
) -> dict[str, Layout | None]:
    """Of all values; `more` are the shapes with size + 1 samples. None: no rows, or it cannot be told where."""
    found = dict(inputs)
    for node in nodes:
        given = [(name, layout) for name in node.input if (layout := found.get(name)) is not None]
        for name in node.output:
            if name not in shapes or name not in more:
                continue
            grown = _grown(shapes[name], more[name], size)
            if grown is None or grown.factor == 1:
                found[name] = grown
            elif node.op_type in _VIEWS:
                found[name] = _through_view(grown, shapes[name], given[:1], shapes)
            else:
                orders = [layout.outermost for _, layout in given if layout.factor == grown.factor]
                found[name] = grown._replace(outermost=orders[0]) if orders else None
    return found


def _grown(shape: tuple[int, ...], more: tuple[int, ...], size: int) -> Layout | None:
    """The one axis whose size is a multiple of the samples in both runs, the same one."""
    if len(shape) != len(more):
        return None
    found = [
        Layout(axis, (larger - smaller))
        for axis, (smaller, larger) in enumerate(zip(shape, more, strict=True))
        if larger > smaller and smaller == (larger - smaller) * size
    ]
    others = sum(1 for smaller, larger in zip(shape, more, strict=True) if smaller != larger)
    return found[0] if len(found) == 1 and others == 1 else None


def _through_view(
    grown: Layout, shape: tuple[int, ...], given: Sequence[tuple[str, Layout]], shapes: Shapes
) -> Layout | None:
    """Both are the same numbers in the same order: the samples stand equally far apart in it."""
    if not given:
        return None
    name, source = given[0]
    apart = _apart(source, shapes[name])
    for candidate in (grown, grown._replace(outermost=False)):
        if _apart(candidate, shape) == apart:
            return candidate
    return None


def _apart(layout: Layout, shape: tuple[int, ...]) -> int:
    return prod(shape[layout.axis + 1 :]) * (layout.factor if layout.outermost else 1)


def by_size(shape: tuple[int, ...], axis: int, size: int) -> Layout | None:
    """For a graph that takes no other number of samples: the batch axis of the inputs, else the first, if it fits."""
    fits = [each for each in (axis, 0) if each < len(shape) and shape[each] == size]
    return Layout(fits[0]) if fits else None
