"""From a Batch to what a graph takes: by name or in the graph's order, in the graph's types."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bnaudit.description import GraphInput
from bnaudit.session import Batch, NotPossibleError, RunError

_GIVEN = {
    *("float16", "float32", "float64", "bool", "object", "complex64", "complex128"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
"""Types of arrays that are handed over."""


def feeds(batch: Batch, inputs: Sequence[GraphInput]) -> dict[str, NDArray[Any]]:
    """Arrays by input name. Raises RunError when an input is missing, unknown, or of another rank or size."""
    given = _by_name(batch, inputs)
    known = {each.name: each for each in inputs}
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1, 0)
            remedy = f"give {_names(inputs)}" if len(known) < 6 else f"did you mean {nearest[0]!r}?"
            raise RunError(f"the graph has no input {name!r}", remedy=remedy)
    missing = [each.name for each in inputs if each.name not in given]
    if missing:
        raise RunError(f"the graph's input {missing[0]!r} is missing", remedy=f"give {_names(inputs)}")
    return {name: _fitted(value, known[name]) for name, value in given.items()}


def _by_name(batch: Batch, inputs: Sequence[GraphInput]) -> dict[str, object]:
    args = batch.args
    if len(args) == 1 and isinstance(args[0], Mapping):
        return {**args[0], **batch.kwargs}
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    free = [each.name for each in inputs if each.name not in batch.kwargs]
    if len(args) > len(free):
        raise RunError(
            f"{len(args) + len(batch.kwargs)} inputs for a graph that takes {len(inputs)}",
            remedy=f"give {_names(inputs)}" if inputs else "give none",
        )
    return {**dict(zip(free, args, strict=False)), **batch.kwargs}


def _names(inputs: Sequence[GraphInput]) -> str:
    return ", ".join(each.name for each in inputs)


def _fitted(value: object, declared: GraphInput) -> NDArray[Any]:
    """The array in the declared type; a conversion that would lose an integer's value or a fraction is refused."""
    wanted = _numpy_type(declared)
    array = _array(value, declared)
    _check_shape(array, declared)
    if array.dtype == wanted:
        return np.ascontiguousarray(array)
    if wanted.kind == "O":
        return array.astype(object)
    if array.dtype.kind not in ("fiubc" if wanted.kind == "c" else "fiub"):
        raise RunError(f"an input of type {array.dtype}", where=declared.name, remedy=f"give {declared.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = np.ascontiguousarray(array.astype(wanted))
    if wanted.kind != "f" and array.dtype.kind == "f" and not np.array_equal(fitted, array):
        raise RunError("an input of integers was given fractions", where=declared.name, remedy=f"give {declared.dtype}")
    return fitted


def _numpy_type(declared: GraphInput) -> np.dtype[Any]:
    """The type that is handed over; bfloat16 goes as float32 of the same value."""
    name = {"bfloat16": "float32", "string": "object"}.get(declared.dtype, declared.dtype)
    if name not in _GIVEN:
        raise NotPossibleError(f"inputs of type {declared.dtype} cannot be given", where=declared.name)
    return np.dtype(name)


def _array(value: object, declared: GraphInput) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RunError("an input that is no array", where=declared.name, remedy=f"give {declared.dtype}") from error
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _check_shape(array: NDArray[Any], declared: GraphInput) -> None:
    shape = declared.shape
    if shape is None:
        return
    wanted = "×".join(str(size) if size is not None else "?" for size in shape)
    if len(shape) != array.ndim:
        what = f"an input with {array.ndim} axes instead of {len(shape)}"
        raise RunError(what, where=declared.name, remedy=f"give {wanted or 'a scalar'}")
    for axis, (size, has) in enumerate(zip(shape, array.shape, strict=True)):
        if isinstance(size, int) and size != has:
            what = f"an input with size {has} on axis {axis} instead of {size}"
            raise RunError(what, where=declared.name, remedy=f"give {wanted}")


def fixed_batch(inputs: Sequence[GraphInput]) -> int | None:
    """The size of the first axis where every input that has axes fixes it, else None.

    Inputs beside the first one may fix another (the state of a recurrent network): the first one's counts.
    """
    first = [each.shape[0] for each in inputs if each.shape]
    if not first or any(each.shape is None for each in inputs):
        return None
    size = first[0]
    return size if isinstance(size, int) and all(isinstance(each, int) for each in first) else None
