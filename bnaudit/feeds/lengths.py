"""Companions of another length: what padding does to an anchor, through the user's own collate function (BN304)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bnaudit.errors import UnreadableError
from bnaudit.feeds.arrangement import Choice, Rows
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import Array


class Lengths(NamedTuple):
    """Samples as the dataset gave them, and one that is longer than all of them."""

    samples: list[Any]
    longer: Any
    make: Callable[[list[Any]], Pool]
    """Collates samples."""
    axis: int
    """Along which the first array with rows is as long as the longest sample."""

    @staticmethod
    def of(samples: list[Any], make: Callable[[list[Any]], Pool]) -> Lengths | None:
        """The longest sample is held back. None when lengths do not vary along one axis, when more than half of the
        samples have the largest, or when the collate function does not take a single sample."""
        try:
            shapes = [next(make([sample]).arrays())[0].shape for sample in samples]
        except (UnreadableError, StopIteration):
            return None
        varying = [axis for axis in range(min(map(len, shapes))) if len({shape[axis] for shape in shapes}) > 1]
        if len(varying) != 1:
            return None
        lengths = [shape[varying[0]] for shape in shapes]
        longest = max(lengths)
        kept = [sample for sample, length in zip(samples, lengths, strict=True) if length < longest]
        if 2 * len(kept) < len(samples):
            return None
        return Lengths(kept, samples[lengths.index(longest)], make, varying[0])

    def lengthened(self, rows: Rows, choice: Choice, base: Pool) -> tuple[Pool, int, tuple[int, int]] | None:
        """`base` with the longer sample as its first companion, collated anew; None where the collate function moves
        samples to other rows or pads to one length whatever there is."""
        if not rows.companions:
            return None
        chosen = [self.samples[sample] for sample in choice.base]
        chosen[rows.companions[0]] = self.longer
        pool = self.make(chosen)
        short, long = next(base.arrays())[0], next(pool.arrays())[0]
        before, after = short.shape[self.axis], long.shape[self.axis]
        if pool.size != rows.size or after <= before or not self._same_anchors(rows, base, pool, before):
            return None
        return pool, self.axis, (before, after)

    def _same_anchors(self, rows: Rows, base: Pool, pool: Pool, length: int) -> bool:
        """Whether the anchors stand in their rows, padded behind or in front."""
        (short, batch), (long, _) = next(base.arrays()), next(pool.arrays())
        anchors = list(rows.anchors)
        behind, front = range(length), range(long.shape[self.axis] - length, long.shape[self.axis])
        own = np.take(short, anchors, axis=batch)
        return any(
            _equal(own, np.take(np.take(long, anchors, axis=batch), part, axis=self.axis)) for part in (behind, front)
        )


def _equal(one: Array, other: Array) -> bool:
    return bool(np.array_equal(one, other))
