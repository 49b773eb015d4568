"""Sizes and element types that the file declares, so that they are known without the values."""

from __future__ import annotations

from collections.abc import Sequence

from bnaudit.reading.onnx.dtypes import DTYPES
from bnaudit.reading.onnx.numpy_types import Constant
from bnaudit.reading.onnx.scope import Site, Value

OPEN = -(1 << 62)
"""Stands for a size that the file leaves open."""


def fixed_sizes(site: Site) -> list[int] | None:
    """The sizes that a Shape or Size node looks at, when the file fixes all of them."""
    value = site.input(0)
    shape: Sequence[int | str | None] | None = None
    if value is not None and value.tensor is not None:
        shape = value.tensor.shape
    elif value is not None and value.info is not None:
        shape = value.info.shape
    if shape is None:
        return None
    seen = shape[site.integer("start", 0) : site.integer("end", len(shape))] if site.operator == "Shape" else shape
    fixed = [size for size in seen if isinstance(size, int)]
    return fixed if len(fixed) == len(seen) else None


def open_shape(site: Site) -> Constant | None:
    """The shape that a Gather or Slice picks from, where the file fixes some of its sizes and leaves others open."""
    import numpy as np

    picked = site.input(0)
    shape = picked.origin().site if picked is not None else None
    value = shape.input(0) if shape is not None and shape.operator == "Shape" else None
    if (
        shape is None
        or value is None
        or value.info is None
        or value.info.shape is None
        or fixed_sizes(shape) is not None
    ):
        return None
    sizes = [size if isinstance(size, int) else OPEN for size in value.info.shape]
    return Constant(np.array(sizes[shape.integer("start", 0) : shape.integer("end", len(sizes))], np.int64), "int64")


def declared_dtype(value: Value) -> str | None:
    """The element type of a value, as the file states it for the value or for what it was computed from."""
    current: Value | None = value
    for _ in range(100):
        if current is None:
            return None
        if current.tensor is not None:
            return current.tensor.dtype
        if current.info is not None and current.info.dtype in DTYPES.values():
            return current.info.dtype
        site = current.site
        if site is None:
            return None
        target = site.attribute("to") if site.operator == "Cast" else None
        if target is not None:
            return DTYPES.get(target.i or 0)
        current = site.input(1 if site.operator == "CastLike" else 0)
    return None
