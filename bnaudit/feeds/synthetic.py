"""Seeded inputs for a model that nobody gave any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bnaudit.description import GraphInput
from bnaudit.errors import UsageError
from bnaudit.feeds.axes import Axes, batch_dimension
from bnaudit.feeds.guesses import VOCABULARY, Guess, free_dimensions
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array, described


def generated(guess: Guess, samples: int, fixed: int | None, generator: np.random.Generator) -> Pool:
    """A pool of so many different samples: floats N(0, 1), integers below the vocabulary, masks of ones.

    Raises UsageError for an input that cannot be made (text).
    """
    arrays, axes = [], []
    for declared in guess.signature:
        axis, shape = _filled(declared, guess.sizes, samples, fixed)
        arrays.append(_values(declared, shape, guess.vocabulary, generator))
        axes.append(axis)
    return Pool((tuple(arrays), {}), Axes(tuple(axes), samples))


def shown(guess: Guess, pool: Pool) -> str:
    """What was made, in words: `images float32 (8, 1, 64, 64)`."""
    names = [declared.name for declared in guess.signature]
    return described(dict(zip(names, pool.tree[0], strict=True)))


def _filled(
    declared: GraphInput, sizes: Mapping[str, int], samples: int, fixed: int | None
) -> tuple[int | None, tuple[int, ...]]:
    shape, free = (declared.shape or ()), free_dimensions(declared, fixed)
    axis = batch_dimension(shape, fixed)
    if axis is None and shape and fixed is None:
        axis = 0
    numbers = [sizes[free[place]] if place in free else size for place, size in enumerate(shape)]
    if axis is not None:
        numbers[axis] = samples
    return axis, tuple(int(number or 1) for number in numbers)


def _values(declared: GraphInput, shape: tuple[int, ...], vocabulary: int, generator: np.random.Generator) -> Array:
    name, dtype = declared.name.lower(), _dtype(declared)
    if "mask" in name or dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return _integers(name, dtype, shape, vocabulary, generator)
    values: Any = generator.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def _integers(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], vocabulary: int, generator: np.random.Generator
) -> Array:
    if name in ("sr", "sample_rate", "sampling_rate"):
        return np.full(shape, 16000).astype(dtype)
    if "type" in name or "segment" in name:
        return np.zeros(shape, dtype)
    if "position" in name and len(shape) > 1:
        return np.broadcast_to(np.arange(shape[-1]), shape).astype(dtype)
    if not shape:
        return np.ones(shape, dtype)
    low, high = (0, 256) if dtype == np.uint8 else (0 if vocabulary < VOCABULARY else 1, vocabulary)
    drawn: Array = np.asarray(generator.integers(low, high, shape)).astype(dtype)
    return drawn


def _dtype(declared: GraphInput) -> np.dtype[Any]:
    name = declared.dtype.removeprefix("torch.")
    aliases = {"unknown": "float32", "bfloat16": "float32", "half": "float16", "float": "float32", "double": "float64"}
    if name.startswith("float8"):
        return np.dtype(np.float32)
    if name in ("string", "str", "object"):
        raise UsageError(
            f"inputs of type {name} cannot be made", where=declared.name, remedy="give real ones with --inputs"
        )
    try:
        return np.dtype(aliases.get(name, name))
    except TypeError:
        return np.dtype(np.float32)
