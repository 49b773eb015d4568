"""As few of the user's numbers as still show the defect: the others are set to 0."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array
from bnaudit.feeds.values import masks
from bnaudit.reproduction.minimal import minimal

_BLOCKS = 16
"""Pieces of one sample that are kept or zeroed as a whole."""


class Zeroed(NamedTuple):
    """A pool with zeros, and their share of its floating values."""

    pool: Pool
    share: float


class _Block(NamedTuple):
    array: int
    row: int
    begin: int
    end: int


def zeroed(pool: Pool, fails: Callable[[Pool], bool], may_go_on: Callable[[], bool]) -> Zeroed:
    """The pool with all blocks of values at 0 that `fails` does not need. Integers and masks are left alone."""
    arrays = [np.moveaxis(array, axis, 0) for array, axis in pool.arrays()]
    flags = masks(pool)
    blocks = tuple(block for at, array in enumerate(arrays) if not flags[at] for block in _blocks(at, array))
    if not blocks:
        return Zeroed(pool, 0.0)
    kept = minimal(blocks, lambda some: fails(_only(pool, blocks, some)), may_go_on)
    total = sum(array.size for array in arrays if array.dtype.kind == "f")
    left = _only(pool, blocks, kept)
    zeros = sum(int((array == 0).sum()) for array, _ in left.arrays() if array.dtype.kind == "f")
    return Zeroed(left, zeros / total)


def _blocks(at: int, array: Array) -> list[_Block]:
    if array.dtype.kind != "f" or not array.size:
        return []
    length = array[0].size
    edges = sorted({length * piece // _BLOCKS for piece in range(_BLOCKS + 1)})
    ranges = list(pairwise(edges))
    flat = array.reshape(len(array), -1)
    return [
        _Block(at, row, begin, end) for row in range(len(array)) for begin, end in ranges if flat[row, begin:end].any()
    ]


def _only(pool: Pool, blocks: tuple[_Block, ...], kept: tuple[_Block, ...]) -> Pool:
    """The pool with the other blocks at 0."""
    wanted = set(kept)
    changed = []
    for at, (array, axis) in enumerate(pool.arrays()):
        turned = np.array(np.moveaxis(array, axis, 0), order="C", copy=True)
        flat = turned.reshape(len(turned), -1)
        for block in blocks:
            if block.array == at and block not in wanted:
                flat[block.row, block.begin : block.end] = 0
        changed.append(np.moveaxis(turned, 0, axis))
    return pool.with_arrays(changed)
