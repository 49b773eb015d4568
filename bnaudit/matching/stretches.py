"""Cuts two sequences at the places that are known to belong together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeVar

Anchor = tuple[int, int]
T = TypeVar("T")
_BEHIND = 1 << 62


def in_order(anchors: Iterable[Anchor]) -> list[Anchor]:
    """The most anchors that increase on both sides (patience sorting, n log n)."""
    ends: list[int] = []
    tops: list[tuple[Anchor, int]] = []
    """The anchors in turn, each with the number of the one before it, −1: none."""
    piles: list[int] = []
    for anchor in sorted(anchors):
        pile = bisect_left(ends, anchor[1])
        before = piles[pile - 1] if pile else -1
        ends[pile : pile + 1] = [anchor[1]]
        piles[pile : pile + 1] = [len(tops)]
        tops.append((anchor, before))
    chain: list[Anchor] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        anchor, at = tops[at]
        chain.append(anchor)
    return chain[::-1]


def between(
    anchors: Iterable[Anchor], ours: Sequence[tuple[int, T]], theirs: Sequence[tuple[int, T]]
) -> list[tuple[Sequence[tuple[int, T]], Sequence[tuple[int, T]]]]:
    """What stands between each two anchors, and before the first and behind the last, where both sides have some."""
    chain = [*in_order(anchors), (_BEHIND, _BEHIND)]
    ours_at, theirs_at = [place for place, _ in ours], [place for place, _ in theirs]
    cut, found = (0, 0), []
    for place, other in chain:
        until = (bisect_left(ours_at, place), bisect_left(theirs_at, other))
        if until[0] > cut[0] and until[1] > cut[1]:
            found.append((ours[cut[0] : until[0]], theirs[cut[1] : until[1]]))
        cut = (max(cut[0], until[0]), max(cut[1], until[1]))
    return found
