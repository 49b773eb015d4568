"""Which samples stand where: anchors at both ends and in the middle, companions between them, other ones to swap in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_DRAWS = 1000


class Rows(NamedTuple):
    """Rows of a batch by what they are for."""

    size: int
    anchors: tuple[int, ...]
    """Ascending; the copy is one of them."""
    copy: tuple[int, int] | None
    """The first anchor and its copy."""

    @property
    def companions(self) -> tuple[int, ...]:
        """All other rows."""
        return tuple(row for row in range(self.size) if row not in self.anchors)

    @property
    def distinct(self) -> tuple[int, ...]:
        """The anchors without the copy."""
        return tuple(row for row in self.anchors if self.copy is None or row != self.copy[1])

    @property
    def alone(self) -> int:
        """The anchor that is fed alone: one with rows on both sides, where there is one, else the last.

        (A batch that is read as time reaches only the rows behind, so never row 0.)
        """
        return self.distinct[len(self.distinct) // 2]


def rows_for(size: int, wanted: int) -> Rows:
    """At most `wanted` anchors in a batch of `size`, and at most half of the rows, so that companions matter.

    From three anchors on, one is a copy of the first. A single anchor stands in the middle (the last of two rows).
    """
    count = max(1, min(wanted, (size + 1) // 2))
    different = count - 1 if count >= 3 else count
    if different == 1:
        return Rows(size, (size // 2,), None)
    ends = [round(row) for row in np.linspace(0, size - 1, different).tolist()]
    if count == different:
        return Rows(size, tuple(ends), None)
    free = [row for row in range(size) if row not in ends]
    copy = min(free, key=lambda row: abs(row - ends[1] / 2))
    return Rows(size, tuple(sorted([*ends, copy])), (0, copy))


class Choice(NamedTuple):
    """Samples, by their number in the pool, for every row of the two batches."""

    base: tuple[int, ...]
    swapped: tuple[int, ...]
    repeated: bool
    """Some sample is used more than once, beside the copy."""

    @property
    def samples(self) -> int:
        """Different samples in both."""
        return len({*self.base, *self.swapped})


def choose(rows: Rows, order: Sequence[int], generator: np.random.Generator) -> Choice:
    """The samples of `order` (all different) for the rows: first anchors, then companions, then those swapped in.

    When there are too few, companions are drawn again, so that every companion still changes and the two batches
    differ as multisets (a permutation alone would leave batch statistics as they are).
    """
    anchors, companions = rows.distinct, rows.companions
    own = [order[index % len(order)] for index in range(len(anchors))]
    others = list(order[len(anchors) :])
    first, second = _companions(len(companions), others, list(order), generator)
    by_row = dict(zip(anchors, own, strict=True))
    if rows.copy is not None:
        by_row[rows.copy[1]] = by_row[rows.copy[0]]
    base = {**by_row, **dict(zip(companions, first, strict=True))}
    swapped = {**by_row, **dict(zip(companions, second, strict=True))}
    return Choice(
        tuple(base[row] for row in range(rows.size)),
        tuple(swapped[row] for row in range(rows.size)),
        len(anchors) + 2 * len(companions) > len(order),
    )


def _companions(
    count: int, others: list[int], every: list[int], generator: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Two sets of companions, unequal row by row and as multisets; equal only if there is one sample in all."""
    if len(others) >= 2 * count:
        return others[:count], others[count : 2 * count]
    if len(every) == 1 or not count:
        return every * count, every * count
    fresh = others[count:]
    for _ in range(_DRAWS):
        first = others[:count] + _drawn(count - len(others), every, generator)
        second = fresh + [_another(sample, every, generator) for sample in first[len(fresh) :]]
        if sorted(first) != sorted(second):
            return first, second
    return first, [_another(first[0], every, generator)] * count


def _drawn(count: int, every: list[int], generator: np.random.Generator) -> list[int]:
    return [int(sample) for sample in generator.choice(every, max(0, count))]


def _another(sample: int, every: list[int], generator: np.random.Generator) -> int:
    drawn = every[int(generator.integers(len(every) - 1))]
    return every[-1] if drawn == sample else drawn
