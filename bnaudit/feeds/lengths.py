"""Companions of another length: what padding does to an anchor, through the user's own collate function (BN304)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bnaudit.errors import UnreadableError
from bnaudit.feeds.arrangement import Choice, Rows
from bnaudit.feeds.pools import Pool


class Lengths:
    """Samples as the dataset gave them, and what makes a pool of them."""

    __slots__ = ("axis", "lengths", "make", "samples")

    def __init__(self, samples: list[Any], make: Callable[[list[Any]], Pool], axis: int, lengths: list[int]) -> None:
        self.samples = samples
        self.make = make
        self.axis = axis
        """The axis of the first array with rows whose size is the length of the longest sample."""
        self.lengths = lengths
        """Of every sample when it is collated alone."""

    @staticmethod
    def of(samples: list[Any], make: Callable[[list[Any]], Pool]) -> Lengths | None:
        """None when all samples have one length, more than one axis varies, or the collate needs several samples."""
        try:
            shapes = [next(make([sample]).arrays())[0].shape for sample in samples]
        except (UnreadableError, StopIteration):
            return None
        varying = [axis for axis in range(len(shapes[0])) if len({shape[axis : axis + 1] for shape in shapes}) > 1]
        if len(varying) != 1:
            return None
        return Lengths(samples, make, varying[0], [shape[varying[0]] for shape in shapes])

    @property
    def shortest_first(self) -> list[int]:
        """Numbers of the samples: with the shortest as anchors, other companions can shorten the batch."""
        return sorted(range(len(self.samples)), key=lambda sample: self.lengths[sample])

    def lengthened(self, rows: Rows, choice: Choice) -> tuple[Pool, int, tuple[int, int]] | None:
        """`base` with the shortest companions that there are, collated anew; None when that leaves its length."""
        anchors = {choice.base[row] for row in rows.anchors}
        short = [sample for sample in self.shortest_first if sample not in anchors]
        if not short or not rows.companions:
            return None
        chosen = list(choice.base)
        half = short[: max(1, len(short) // 2)]
        for index, row in enumerate(rows.companions):
            chosen[row] = half[index % len(half)]
        pool = self.make([self.samples[sample] for sample in chosen])
        before = next(self.make(self.samples).arrays())[0].shape[self.axis]
        after = next(pool.arrays())[0].shape[self.axis]
        return None if after == before or pool.size != rows.size else (pool, self.axis, (before, after))
