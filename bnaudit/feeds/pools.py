"""A pool: the samples that an experiment draws its rows from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bnaudit.errors import UnreadableError
from bnaudit.feeds.axes import Axes
from bnaudit.feeds.trees import Array, leaves, mapped
from bnaudit.session import Batch

_LONGEST_SEARCH = 64
"""Batches of other lengths that are read in the hope of more samples of one length."""


class Pool(NamedTuple):
    """Samples in the arrays of one call: `tree` is (args, kwargs), its leaves have `axes.size` rows or none."""

    tree: Any
    axes: Axes

    @property
    def size(self) -> int:
        """Samples."""
        return self.axes.size

    def arrays(self) -> Iterator[tuple[Array, int]]:
        """The arrays with rows, and their batch axes."""
        for (_, leaf), axis in zip(leaves(self.tree), self.axes.axes, strict=True):
            if axis is not None and isinstance(leaf, np.ndarray):
                yield leaf, axis

    def with_arrays(self, arrays: Iterable[Array]) -> Pool:
        """The pool with other arrays in place of those with rows, in their order."""
        new, axes = iter(arrays), iter(self.axes.axes)
        kept: list[Array] = []

        def replaced(leaf: object) -> object:
            if next(axes) is None or not isinstance(leaf, np.ndarray):
                return leaf
            kept.append(next(new))
            return kept[-1]

        tree = mapped(self.tree, replaced)
        axis = self.axes.first
        return Pool(tree, Axes(self.axes.axes, kept[0].shape[axis] if kept else self.size))

    def take(self, rows: Sequence[int]) -> Pool:
        """A pool of copies of these rows."""
        chosen = list(rows)
        return self.with_arrays(np.take(array, chosen, axis=axis) for array, axis in self.arrays())

    def followed_by(self, *others: Pool) -> Pool:
        """The rows of all pools, one pool after the other; what has no rows is the first one's."""
        if not others:
            return self
        parts = [list(pool.arrays()) for pool in (self, *others)]
        columns = zip(*parts, strict=True)
        return self.with_arrays(np.concatenate([array for array, _ in column], axis=column[0][1]) for column in columns)

    def batch(self, anchors: tuple[int, ...] = (0,)) -> Batch:
        """All of it as the inputs of one forward."""
        args, kwargs = self.tree
        return Batch(args=args, kwargs=kwargs, size=self.size, anchors=anchors, axis=self.axes.first)

    def digests(self) -> list[bytes]:
        """The bytes of every row, all arrays together: equal for samples that are equal bit by bit."""
        arrays = list(self.arrays())
        return [
            b"|".join(np.take(array, row, axis=axis).tobytes() for array, axis in arrays) for row in range(self.size)
        ]

    def shape(self) -> tuple[Any, ...]:
        """What pools must share to be joined: dtype and shape of a row, of every array with rows."""
        return tuple((array.dtype.str, *np.delete(array.shape, axis).tolist(), axis) for array, axis in self.arrays())


def distinct(pool: Pool) -> list[int]:
    """The first row of every different sample, ascending."""
    first: dict[bytes, int] = {}
    for row, digest in enumerate(pool.digests()):
        first.setdefault(digest, row)
    return sorted(first.values())


def collected(pools: Iterable[Pool], wanted: int, generator: np.random.Generator, whence: str) -> tuple[Pool, str]:
    """At most `wanted` samples of one shape, joined across batches, and a remark where other shapes were left out.

    Of a batch that holds more than is wanted, rows are drawn at random without reading the others.
    """
    groups: defaultdict[tuple[Any, ...], list[Pool]] = defaultdict(list)
    held: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    for count, pool in enumerate(pools, 1):
        shape = pool.shape()
        room = wanted - held[shape]
        groups[shape].append(_at_most(pool, room, generator))
        held[shape] += groups[shape][-1].size
        if held[shape] >= wanted or (len(groups) > 1 and count >= _LONGEST_SEARCH):
            break
    if not groups:
        raise UnreadableError("the inputs hold no batch", where=whence, remedy="give at least one sample")
    best = max(groups, key=lambda shape: held[shape])
    remark = f"{whence}: batches of {len(groups)} shapes, those of one shape are used" if len(groups) > 1 else ""
    return groups[best][0].followed_by(*groups[best][1:]), remark


def _at_most(pool: Pool, room: int, generator: np.random.Generator) -> Pool:
    if pool.size <= room:
        return pool.take(range(pool.size))
    return pool.take(sorted(generator.choice(pool.size, room, replace=False).tolist()))
