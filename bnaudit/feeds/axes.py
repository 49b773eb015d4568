"""Where the samples stand: the batch axis of every array of a call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bnaudit.description import GraphInput
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.feeds.trees import Array, described, leaves

_BATCH = frozenset(("batch", "batch_size", "batchsize", "bs", "n", "b"))
"""Names that exporters give to the dimension of the batch."""


class Axes(NamedTuple):
    """One batch axis or None (passed on unchanged) for every leaf of the tree (args, kwargs)."""

    axes: tuple[int | None, ...]
    size: int

    @property
    def first(self) -> int:
        """The axis of the first array that has one."""
        return next((axis for axis in self.axes if axis is not None), 0)


def batch_dimension(shape: tuple[int | str | None, ...], fixed: int | None = None) -> int | None:
    """The axis of a declared shape that is the batch: named so, else of the size that the artifact fixes the batch
    at, else the first free one; None: there is none of these."""
    free = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
    named = [axis for axis in free if str(shape[axis]).lower() in _BATCH]
    of_size = [axis for axis, size in enumerate(shape) if size == fixed and isinstance(size, int)]
    return next(iter(named or of_size or free), None)


def declared_for(path: str, signature: tuple[GraphInput, ...]) -> GraphInput | None:
    """What the model declares of the leaf of (args, kwargs) at `path`: `[0][1]` by position, `[1]['x']` by name."""
    for index, declared in enumerate(signature):
        if path in (f"[0][{index}]", f"[1][{declared.name!r}]"):
            return declared
    return None


def found(
    tree: Any, signature: tuple[GraphInput, ...], given: int | None, whence: str, fixed: int | None = None
) -> Axes:
    """The batch axis of every leaf: as given, as declared, or the one along which all arrays have the same size.

    Raises UsageError when the given axis does not exist, UnreadableError when there is no array or no sample.
    """
    flat = list(leaves(tree))
    arrays = [(path, leaf) for path, leaf in flat if isinstance(leaf, np.ndarray) and leaf.ndim]
    if not arrays:
        raise UnreadableError("there is no array of samples", where=whence, remedy="give arrays with a batch axis")
    wanted = _wanted(arrays, signature, given, whence, fixed)
    sized = [(array, axis) for (_, array), axis in zip(arrays, wanted, strict=True) if axis is not None]
    array, axis = next((pair for pair in sized if not _is_square(pair[0])), sized[0])
    size = array.shape[axis]
    if not size:
        shapes = described([array for _, array in arrays])
        raise UnreadableError(f"the inputs hold no sample: {shapes}", where=whence, remedy="give at least one")
    by_path = {
        path: axis if axis is not None and axis < array.ndim and array.shape[axis] == size else None
        for (path, array), axis in zip(arrays, wanted, strict=True)
    }
    return Axes(tuple(by_path.get(path) for path, _ in flat), size)


def _wanted(
    arrays: list[tuple[str, Array]],
    signature: tuple[GraphInput, ...],
    given: int | None,
    whence: str,
    fixed: int | None,
) -> list[int | None]:
    if given is not None:
        if not any(0 <= given < array.ndim for _, array in arrays):
            raise UsageError(
                f"no input has an axis {given}", where=whence, remedy="give another --batch-axis, counted from 0"
            )
        return [given if given < array.ndim else None for _, array in arrays]
    declared = [_declared_axis(path, array, signature, fixed) for path, array in arrays]
    others = [array for (_, array), axis in zip(arrays, declared, strict=True) if axis is None]
    shared = _shared(others)
    return [shared if axis is None else axis for axis in declared]


def _declared_axis(path: str, array: Array, signature: tuple[GraphInput, ...], fixed: int | None) -> int | None:
    declared = declared_for(path, signature)
    if declared is None or declared.shape is None or len(declared.shape) != array.ndim:
        return None
    return batch_dimension(declared.shape, fixed)


def _shared(arrays: list[Array]) -> int:
    """The first axis along which all arrays have the same size, else 0. Square matrices (causal masks) have no say."""
    arrays = [array for array in arrays if not _is_square(array)] or arrays
    rank = min((array.ndim for array in arrays), default=1)
    return next((axis for axis in range(rank) if len({array.shape[axis] for array in arrays}) == 1), 0)


def _is_square(array: Array) -> bool:
    return array.ndim == 2 and array.shape[0] == array.shape[1]
