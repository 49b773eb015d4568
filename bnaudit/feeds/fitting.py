"""Whether the user's inputs are what the model takes: casts what can be cast, and says what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnaudit.description import Carrier, GraphInput
from bnaudit.errors import UnreadableError
from bnaudit.feeds.axes import batch_dimension, declared_for
from bnaudit.feeds.trees import Array, described, leaves, mapped
from bnaudit.session import Batch, RunError, Session

_EXACT = (Carrier.GRAPH, Carrier.PROGRAM)
"""Carriers whose signature is a promise; that of a module is a guess."""


def misfit(session: Session, batch: Batch, error: RunError) -> UnreadableError:
    """What to raise when the model fails on the very first batch of the user's inputs: both sides in one sentence."""
    within = f"{error.where}; " if error.where else ""
    return UnreadableError(
        error.what,
        where=f"{within}given: {described(_tree(batch))}{_expected(session)}",
        remedy="give inputs as the model takes them",
    )


def _tree(batch: Batch) -> Any:
    return dict(batch.kwargs) if not batch.args else batch.args[0] if _is_single(batch) else batch.args


def _is_single(batch: Batch) -> bool:
    return len(batch.args) == 1 and not batch.kwargs


def _expected(session: Session) -> str:
    if not session.signatures:
        return ""
    doubt = "" if session.carrier in _EXACT else "probably "
    return f"; the model {doubt}takes: " + ", ".join(_written(declared) for declared in session.signatures[0])


def _written(declared: GraphInput) -> str:
    if declared.shape is None:
        return f"{declared.name} {declared.dtype}"
    return f"{declared.name} {declared.dtype} ({', '.join('?' if d is None else str(d) for d in declared.shape)})"


def fitted(tree: Any, session: Session, whence: str) -> tuple[Any, tuple[str, ...]]:
    """The call (args, kwargs) with a batch axis where a single sample came without, and remarks on that.

    Raises UnreadableError when rank, fixed sizes or number of inputs of a graph differ.
    """
    signature = session.signatures[0] if session.signatures else ()
    if session.carrier is Carrier.GRAPH and len(tree[0]) != len(signature):
        raise UnreadableError(
            f"the graph takes {len(signature)} inputs, {len(tree[0])} are given",
            where=f"{whence}{_expected(session)}",
            remedy="give them in its order, or by name",
        )
    paths = iter([path for path, _ in leaves(tree)])
    remarks: list[str] = []

    def changed(leaf: object) -> object:
        declared = declared_for(next(paths), signature)
        if declared is None or not isinstance(leaf, np.ndarray):
            return leaf
        leaf = _with_batch(leaf, declared, whence, remarks)
        if session.carrier in _EXACT:
            _check(leaf, declared, session, whence)
        return leaf

    return mapped(tree, changed), tuple(remarks)


def cast(tree: Any, session: Session, whence: str) -> tuple[Any, tuple[str, ...]]:
    """The call (args, kwargs) with dtypes that the model declares, and remarks where they are others."""
    signature = session.signatures[0] if session.signatures else ()
    paths = iter([path for path, _ in leaves(tree)])
    remarks: list[str] = []

    def changed(leaf: object) -> object:
        declared = declared_for(next(paths), signature)
        if declared is None or not isinstance(leaf, np.ndarray):
            return leaf
        return _cast(leaf, declared, session, whence, remarks)

    return mapped(tree, changed), tuple(remarks)


def _with_batch(array: Array, declared: GraphInput, whence: str, remarks: list[str]) -> Array:
    """A single sample without a batch axis gets one, where all declared sizes say so."""
    shape = declared.shape
    if shape is None or len(shape) != array.ndim + 1 or batch_dimension(shape) not in (0, None):
        return array
    pairs = list(zip(array.shape, shape[1:], strict=True))
    if not any(isinstance(size, int) for _, size in pairs) or any(isinstance(s, int) and s != g for g, s in pairs):
        return array
    remarks.append(f"{whence}: {array.shape} is taken as a single sample")
    return array[None]


def _check(array: Array, declared: GraphInput, session: Session, whence: str) -> None:
    shape = declared.shape
    if shape is None:
        return
    batch = batch_dimension(shape, session.fixed_batch)
    free = {0 if batch is None else batch}
    fits = len(shape) == array.ndim and all(
        axis in free or not isinstance(size, int) or size == array.shape[axis] for axis, size in enumerate(shape)
    )
    if not fits:
        raise UnreadableError(
            f"the model takes {_written(declared)}, the input is {array.dtype} {array.shape}",
            where=whence,
            remedy="give inputs as the model takes them",
        )


def _cast(array: Array, declared: GraphInput, session: Session, whence: str, remarks: list[str]) -> Array:
    """Between floats, between integers, and from integers to floats; never from floats to integers. What a module
    takes is a guess, so that only images in bytes are cast for it (the runner casts floats to its parameters')."""
    if session.carrier not in _EXACT and (array.dtype != np.uint8 or array.ndim < 3):
        return array
    name = declared.dtype.removeprefix("torch.")
    name = "float32" if name.startswith(("bfloat", "float8")) else name
    floats, integers = name.startswith("float"), name.startswith(("int", "uint"))
    if name == array.dtype.name or not (floats or (integers and array.dtype.kind in "iub")):
        return array
    remarks.append(f"{whence}: {array.dtype} is cast to {name}")
    return array.astype(name)
