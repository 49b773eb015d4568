"""New values for samples that stay valid: scaled, redrawn, and whole samples made of given ones."""

from __future__ import annotations

import numpy as np

from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array

SCALE = 100.0
"""Companions are scaled up: scaled down they become denormal numbers, which are many times slower."""


def is_mask(array: Array) -> bool:
    """Whether values are a mask, of 0 and 1 or (floating ones) of 0 and −inf."""
    if array.dtype.kind not in "fiu":
        return False
    zero = array == 0
    return not zero.all() and bool((zero | (array == 1)).all() or (zero | np.isneginf(array)).all())


def masks(pool: Pool) -> list[bool]:
    """Which arrays with rows are masks; a single array is none (drawings may be black and white)."""
    arrays = [array for array, _ in pool.arrays()]
    return [len(arrays) > 1 and is_mask(array) for array in arrays]


def scaled(pool: Pool, rows: list[int], generator: np.random.Generator) -> Pool:
    """A copy with these rows × 100, or redrawn, see `_scaled`."""
    flags = masks(pool)
    return pool.with_arrays(
        _scaled(array, rows, axis, mask, generator) for (array, axis), mask in zip(pool.arrays(), flags, strict=True)
    )


def _scaled(array: Array, rows: list[int], axis: int, mask: bool, generator: np.random.Generator) -> Array:
    """A copy with these rows × 100, where values are continuous and within what the dtype can hold.

    Integers are redrawn, see `_redrawn`; booleans, masks and one number per sample (lengths, steps) change rows, so
    that every sample keeps a valid one.
    """
    turned = np.moveaxis(array.copy(), axis, 0)
    if not rows:
        return np.moveaxis(turned, 0, axis)
    if array.dtype.kind in "fc" and not mask:
        turned[rows] = _times(turned[rows])
    elif mask or array.dtype.kind == "b" or array.ndim == 1:
        turned[rows] = turned[generator.permutation(len(turned))[: len(rows)]]
    else:
        turned[rows] = _redrawn(turned, generator)[rows]
    return np.moveaxis(turned, 0, axis)


def _redrawn(array: Array, generator: np.random.Generator) -> Array:
    """Integers (samples, …, length) drawn from the values that occur. Padding stays, and none is drawn elsewhere.

    A model that makes its mask of the padding would otherwise get masks with holes, which send the whole batch another
    way (PyTorch's transformer encoder takes nested tensors only when every mask is aligned to the left).
    """
    values = np.unique(array)
    padding, pads = _padding(array)
    words = np.setdiff1d(values, pads)
    if len(words) < 2:
        return generator.choice(values, array.shape)
    return np.where(padding, array, generator.choice(words, array.shape))


def _padding(array: Array) -> tuple[Array, list[int]]:
    """Where at both ends the commonest first, or last, value repeats; and these values."""
    padding, pads = np.zeros(array.shape, bool), []
    for view, mine in ((array, padding), (array[..., ::-1], padding[..., ::-1])):
        values, counts = np.unique(view[..., 0], return_counts=True)
        run = np.logical_and.accumulate(view == values[counts.argmax()], axis=-1)
        run &= run.sum(axis=-1, keepdims=True) >= 2
        if run.any():
            mine |= run
            pads.append(int(values[counts.argmax()]))
    return padding, pads


def _times(values: Array) -> Array:
    limit = np.finfo(values.dtype).max
    with np.errstate(over="ignore"):
        product = values * values.dtype.type(SCALE)
    if values.dtype.kind == "c":
        return np.asarray(product)
    return np.where(np.isfinite(values), np.clip(product, -limit, limit), values)


def made_of(pool: Pool, count: int, generator: np.random.Generator) -> Pool:
    """`count` samples made of those in the pool: floating ones scaled, rolled, shifted and with noise, of the size of
    the sample's own standard deviation (1 for a constant sample); integers permuted within the sample."""
    rows = [index % pool.size for index in range(count)]
    copies = pool.take(rows)
    flags = masks(copies)
    return copies.with_arrays(
        _varied(array, axis, mask, generator) for (array, axis), mask in zip(copies.arrays(), flags, strict=True)
    )


def _varied(array: Array, axis: int, mask: bool, generator: np.random.Generator) -> Array:
    if mask or array.dtype.kind == "b":
        return array
    rows = [_varied_row(row, generator) for row in np.moveaxis(array, axis, 0)]
    return np.ascontiguousarray(np.moveaxis(np.stack(rows).astype(array.dtype, copy=False), 0, axis))


def _varied_row(row: Array, generator: np.random.Generator) -> Array:
    if row.dtype.kind in "iu":
        return generator.permutation(row.reshape(-1)).reshape(row.shape)
    spread = float(np.std(row)) or 1.0
    rolled = np.roll(row, int(generator.integers(1, 8)), axis=-1) if row.ndim else row
    noise = generator.standard_normal(row.shape) * 0.2 + generator.normal() * 0.3
    return np.asarray(rolled * generator.uniform(0.6, 1.6) + noise * spread)
