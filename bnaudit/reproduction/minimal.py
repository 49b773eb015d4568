"""Delta debugging: as few items as still show it.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software
Engineering 28, 2002 (ddmin).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def minimal(
    items: Sequence[T], fails: Callable[[tuple[T, ...]], bool], may_go_on: Callable[[], bool] = lambda: True
) -> tuple[T, ...]:
    """A part of `items`, in their order, that still fails and of which no single item can be left out.

    `fails(items)` must hold; it is not asked again. It is asked about ever smaller parts, about none twice, and always
    in the same order. When `may_go_on()` turns False the smallest part found so far is returned.
    """
    numbered, pieces = tuple(range(len(items))), 2
    asked = {numbered}

    def still(part: tuple[int, ...]) -> bool:
        if part in asked or not may_go_on():
            return False
        asked.add(part)
        return fails(tuple(items[index] for index in part))

    if still(()):
        return ()
    while True:
        cut = _pieces(numbered, pieces)
        alone = next((piece for piece in cut if still(piece)), None)
        rest = None if alone is not None else next((part for part in _without_each(numbered, cut) if still(part)), None)
        if alone is not None:
            numbered, pieces = alone, 2
        elif rest is not None:
            numbered, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(numbered):
            return tuple(items[index] for index in numbered)
        else:
            pieces = min(2 * pieces, len(numbered))


def _pieces(items: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """The items in so many pieces of about one length, empty ones left out."""
    edges = [len(items) * at // count for at in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(edges) if end > begin]


def _without_each(items: tuple[int, ...], cut: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for piece in cut:
        left_out = set(piece)
        yield tuple(item for item in items if item not in left_out)
