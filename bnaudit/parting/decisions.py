"""Decisions that flip: only of outputs that are decisions, and only where more than rounding moved them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bnaudit.shifts import decided

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

_DECIDES = ("logit", "prob", "score", "class", "label", "pred", "cls", "softmax")
_OTHER = (
    "embed",
    "feat",
    "hidden",
    "box",
    "loc",
    "reg",
    "state",
    "mask",
    "mean",
    "vector",
    "coord",
    "landmark",
    "depth",
)
_UNIT = 1e-3
"""How far from 1 the length of an embedding is, as rounding in half precision leaves it."""


def flipped(one: str, other: str, first: Array, second: Array, apart: Array | None, floor: float) -> tuple[int, int]:
    """How many decisions differ, and how many there are; (0, 0) for an output that is no decision.

    first, second: (rows, …) of both. apart: (rows,), their differences: a tie that rounding breaks is no flip.
    """
    if apart is None or first.shape != second.shape or not is_decision(f"{one} {other}", first):
        return 0, 0
    firsts, seconds = decided(first), decided(second)
    if firsts is None or seconds is None:
        return 0, 0
    return int(((firsts != seconds) & (apart > floor)).sum()), int(firsts.size)


def is_decision(name: str, rows: Array) -> bool:
    """Whether (rows, classes), (rows, 1) or (rows,) are logits, probabilities or labels.

    The name says so, or it does not speak against it: rows of length 1 are embeddings, a single floating number may be
    any quantity unless its name says that it is a score.
    """
    name = name.lower()
    if any(word in name for word in _OTHER) or decided(rows) is None:
        return False
    if any(word in name for word in _DECIDES) or rows.dtype.kind in "iu":
        return True
    if rows.ndim != 2 or rows.shape[1] < 2:
        return False
    with np.errstate(all="ignore"):
        lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1))
    return not bool((np.abs(lengths - 1.0) < _UNIT).all())
