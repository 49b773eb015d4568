"""Nested tuples, lists and dicts of arrays: what a model's call takes, and what a loader yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bnaudit.errors import UnreadableError

Array: TypeAlias = NDArray[Any]
_NUMBERS = "biufc"
"""Kinds of dtypes that a model can take."""
_NARROW = ("bfloat16", "float8", "float6", "float4")
"""Names of dtypes that ml_dtypes adds to NumPy; float32 holds them exactly."""


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Path (`[0]['ids']`) and value of every leaf, in order; the path of a tree that is a leaf itself is ""."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(tree, (tuple, list)):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, tree


def mapped(tree: object, change: Callable[[object], object]) -> Any:
    """The tree with every leaf replaced, in order; named tuples stay what they are, mappings become dicts."""
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        values = [mapped(value, change) for value in tree]
        if hasattr(tree, "_fields"):
            return type(tree)(*values)
        return tuple(values) if isinstance(tree, tuple) else values
    return change(tree)


def with_arrays(tree: object, whence: str) -> Any:
    """The tree with tensors, and whatever else can be an array, as NumPy arrays; numbers, text and None stay.

    Raises UnreadableError for an array that no model takes (objects, text, dates).
    """
    return mapped(_with_lists(tree), lambda leaf: _as_array(leaf, whence))


def is_array(value: object) -> bool:
    """Whether the value is an array or can be read as one: NumPy, a tensor, an image."""
    return isinstance(value, np.ndarray) or _is_tensor(value) or hasattr(value, "__array__")


def holds_arrays(tree: object) -> bool:
    """Whether any leaf is an array."""
    return any(is_array(leaf) for _, leaf in leaves(tree))


def described(tree: object) -> str:
    """Arrays in words: `x float32 (16, 1, 8, 8), [1] int64 (16,)`."""
    pieces = []
    for path, leaf in leaves(tree):
        if isinstance(leaf, np.ndarray):
            pieces.append(f"{_short(path)}{leaf.dtype} {leaf.shape}")
    return ", ".join(pieces) or "no arrays"


def _with_lists(tree: object) -> Any:
    """The tree with lists of nothing but numbers, nested or not, as arrays: what text datasets hold."""
    if isinstance(tree, Mapping):
        return {key: _with_lists(value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return type(tree)(*map(_with_lists, tree)) if hasattr(tree, "_fields") else tuple(map(_with_lists, tree))
    if not isinstance(tree, list):
        return tree
    values = [leaf for _, leaf in leaves(tree)]
    if values and all(isinstance(value, (bool, int, float)) for value in values):
        with suppress(ValueError):  # of lists with different lengths
            return np.asarray(tree)
    return [_with_lists(value) for value in tree]


def _short(path: str) -> str:
    """`['x']` → `x `; the only argument of a call needs no path."""
    if path.startswith("['") and path.endswith("']") and path.count("[") == 1:
        return f"{path[2:-2]} "
    return f"{path} " if path else ""


def _is_tensor(value: object) -> bool:
    return hasattr(value, "detach") and hasattr(value, "cpu") and hasattr(value, "numpy")


def _as_array(leaf: object, whence: str) -> object:
    if isinstance(leaf, np.generic):
        leaf = np.asarray(leaf)
    if not is_array(leaf):
        return leaf
    try:
        array = _from_tensor(leaf) if _is_tensor(leaf) else np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(leaf).__name__
        raise UnreadableError(
            f"a {kind} cannot be read as an array: {error}", where=whence, remedy="give dense arrays or tensors"
        ) from error
    if array.dtype.name.startswith(_NARROW):
        array = array.astype(np.float32)
    if array.dtype.kind not in _NUMBERS:
        raise UnreadableError(
            f"an array of {array.dtype} cannot be fed to a model", where=whence, remedy="give numbers or booleans"
        )
    return array


def _from_tensor(tensor: Any) -> Array:
    """A tensor's values; bfloat16 and eight-bit floats, which NumPy lacks, are widened to float32."""
    tensor = tensor.detach().cpu()
    if hasattr(tensor, "resolve_conj"):
        tensor = tensor.resolve_conj().resolve_neg()
    dtype = str(tensor.dtype)
    if "bfloat16" in dtype or "float8" in dtype:
        tensor = tensor.float()
    return np.asarray(tensor.numpy())
