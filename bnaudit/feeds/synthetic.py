"""Seeded inputs for a model that nobody gave any: values, and sizes for the dimensions that it leaves free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from bnaudit.description import GraphInput
from bnaudit.errors import UsageError
from bnaudit.feeds.axes import Axes, batch_dimension
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array, described

_IMAGE = (64, 224, 32, 28, 128, 256, 299, 512, 16, 8)
"""Heights and widths. 64 first: a twelfth of the work of 224, and most networks take it; those with a fixed size take
224 (ImageNet), 32 (CIFAR) or 28 (MNIST) as a rule; 299 is Inception's."""
_TIME = (32, 16, 64, 512, 128, 8, 16000, 256, 1000, 4)
"""Steps of a sequence; 512 and 16000 are samples of audio (a frame and a second)."""
_VIDEO = (8, 16, 4, 32, 8, 8, 8, 8, 2, 1)
_CHANNELS = (3, 3, 3, 1, 3, 3, 3, 1, 1, 1)
_FEATURES = (32, 16, 64, 512, 128, 8, 16000, 256, 784, 4)
_ANY = (
    (GraphInput(name="input", dtype="float32", shape=("batch", "channels", "height", "width")),),
    (GraphInput(name="input", dtype="float32", shape=("batch", "features")),),
    (GraphInput(name="input", dtype="int64", shape=("batch", "length")),),
    (GraphInput(name="input", dtype="float32", shape=("batch", "length", "features")),),
)
"""What is tried on a model that says nothing of its inputs."""
_VOCABULARY = 10


class Guess(NamedTuple):
    """One way to fill a signature: a size for every free dimension."""

    signature: tuple[GraphInput, ...]
    sizes: Mapping[str, int]
    """Free dimension (by name, or by its role where it has none) → size."""
    assumed: tuple[str, ...]
    """Those that the user did not give."""
    vocabulary: int = _VOCABULARY


def guesses(
    signatures: tuple[tuple[GraphInput, ...], ...],
    given: Mapping[str, int],
    limits: Mapping[str, tuple[int, int | None]],
    most: int,
    fixed: int | None = None,
) -> list[Guess]:
    """At most `most` guesses, likely signatures with likely sizes first, each different.

    Raises UsageError when `given` names a dimension that no signature has.
    """
    signatures = signatures or _ANY
    _check_names(signatures, given, fixed)
    ranked: list[tuple[int, Guess]] = []
    for place, signature in enumerate(signatures):
        for step, guess in enumerate(_of_signature(signature, given, limits, fixed)):
            ranked.append((3 * place + step, guess))
    return [guess for _, guess in sorted(ranked, key=lambda entry: entry[0])][:most]


def _of_signature(
    signature: tuple[GraphInput, ...],
    given: Mapping[str, int],
    limits: Mapping[str, tuple[int, int | None]],
    fixed: int | None,
) -> Iterator[Guess]:
    roles = _roles(signature, fixed)
    assumed = tuple(name for name in roles if name not in given)
    seen: list[dict[str, int]] = []
    for index in range(len(_IMAGE)):
        sizes = {name: given.get(name, _limited(_size(role, index), limits.get(name))) for name, role in roles.items()}
        if sizes not in seen:
            seen.append(sizes)
            yield Guess(signature, sizes, assumed)
    if seen and any("int" in declared.dtype for declared in signature):
        yield Guess(signature, seen[0], assumed, vocabulary=2)


def _check_names(signatures: tuple[tuple[GraphInput, ...], ...], given: Mapping[str, int], fixed: int | None) -> None:
    known = {name for signature in signatures for declared in signature for name in _free(declared, fixed).values()}
    known |= {name for signature in signatures for declared in signature if (name := batch_name(declared))}
    for name in given:
        if name not in known:
            free = ", ".join(sorted(known)) or "none"
            raise UsageError(f"the model has no free dimension {name!r}", remedy=f"its free dimensions are {free}")


def batch_name(declared: GraphInput) -> str | None:
    """The name of the free dimension that is the batch (`batch` without one); None: the batch is fixed."""
    axis = batch_dimension(declared.shape or ())
    if axis is None or declared.shape is None:
        return None
    return _named(declared.shape[axis]) or "batch"


def _roles(signature: tuple[GraphInput, ...], fixed: int | None) -> dict[str, str]:
    """Every free dimension and its role, without the batch."""
    found: dict[str, str] = {}
    for declared in signature:
        for axis, name in _free(declared, fixed).items():
            found.setdefault(name, _role(declared, axis))
    return found


def _shape(declared: GraphInput) -> tuple[int | str | None, ...]:
    """The declared shape; an input of unknown rank is taken for an image, or for a sequence of integers."""
    if declared.shape is not None:
        return declared.shape
    return (None, None) if "int" in declared.dtype else (None, 3, None, None)


def _free(declared: GraphInput, fixed: int | None) -> dict[int, str]:
    """Axis → name of the free dimensions without the batch; one without a name is called by its role."""
    shape = _shape(declared)
    batch = batch_dimension(shape, fixed)
    free = [axis for axis, size in enumerate(shape) if not isinstance(size, int) and axis != batch]
    return {axis: _named(shape[axis]) or _role(declared, axis) for axis in free}


def _named(size: int | str | None) -> str:
    """The name of a free dimension; some exporters write `?` for all that have none."""
    return size if isinstance(size, str) and any(map(str.isalnum, size)) else ""


def _role(declared: GraphInput, axis: int) -> str:
    shape = _shape(declared)
    rank = len(shape)
    if rank >= 4:
        last = isinstance(shape[-1], int) and shape[-1] <= 4 and not isinstance(shape[1], int)
        roles = ["depth", "height", "width"][-(rank - 2) :]
        order = ["batch", *roles, "channels"] if last else ["batch", "channels", *roles]
        return order[axis] if axis < len(order) else "length"
    if rank == 3:
        return "features" if axis == 2 and not isinstance(shape[1], int) else "length"
    return "length" if "int" in declared.dtype or rank < 2 else "features"


def _size(role: str, index: int) -> int:
    table = {"height": _IMAGE, "width": _IMAGE, "depth": _VIDEO, "channels": _CHANNELS, "features": _FEATURES}
    return table.get(role, _TIME)[index]


def _limited(size: int, limits: tuple[int, int | None] | None) -> int:
    if limits is None:
        return size
    smallest, largest = limits
    return max(smallest, size if largest is None else min(size, largest))


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
    shape, free = _shape(declared), _free(declared, fixed)
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
    low, high = (0, 256) if dtype == np.uint8 else (0 if vocabulary < 3 else 1, vocabulary)
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
