"""New values for samples that stay valid: scaled, redrawn, and whole samples made of given ones."""

from __future__ import annotations

import numpy as np

from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array

SCALE = 100.0
"""Companions are scaled up: scaled down they become denormal numbers, which are many times slower."""


def is_continuous(array: Array) -> bool:
    """Whether values can be scaled: floating or complex, and not a mask of 0 and 1 or of 0 and −inf."""
    if array.dtype.kind not in "fc":
        return False
    values = np.unique(array.reshape(-1)[:4096])
    if len(values) != 2:
        return True
    return not (values[0] == 0 and values[1] == 1) and not (np.isneginf(values[0].real) and values[1] == 0)


def scaled(array: Array, rows: list[int], axis: int, generator: np.random.Generator) -> Array:
    """A copy with these rows × 100, where values are continuous and within what the dtype can hold.

    Integers are redrawn from the values that occur; booleans, masks and one number per sample (lengths, steps) change
    rows, so that every sample keeps a valid one.
    """
    turned = np.moveaxis(array.copy(), axis, 0)
    if not rows:
        return np.moveaxis(turned, 0, axis)
    if is_continuous(array):
        turned[rows] = _times(turned[rows])
    elif array.dtype.kind == "b" or array.dtype.kind in "fc" or array.ndim == 1:
        turned[rows] = turned[generator.permutation(len(turned))[: len(rows)]]
    else:
        turned[rows] = generator.choice(np.unique(array), turned[rows].shape)
    return np.moveaxis(turned, 0, axis)


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
    return copies.with_arrays(_varied(array, axis, generator) for array, axis in copies.arrays())


def _varied(array: Array, axis: int, generator: np.random.Generator) -> Array:
    turned = np.moveaxis(array, axis, 0)
    rows = [_varied_row(row, array, generator) for row in turned]
    return np.ascontiguousarray(np.moveaxis(np.stack(rows).astype(array.dtype, copy=False), 0, axis))


def _varied_row(row: Array, array: Array, generator: np.random.Generator) -> Array:
    if array.dtype.kind == "b" or array.ndim == 1 or not is_continuous(array):
        return generator.permutation(row.reshape(-1)).reshape(row.shape) if array.dtype.kind in "iu" else row
    spread = float(np.std(row)) or 1.0
    rolled = np.roll(row, int(generator.integers(1, 8)), axis=-1) if row.ndim else row
    noise = generator.standard_normal(row.shape) * 0.2 + generator.normal() * 0.3
    return np.asarray(rolled * generator.uniform(0.6, 1.6) + noise * spread)
