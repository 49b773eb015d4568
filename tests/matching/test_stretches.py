from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from bnaudit.matching.stretches import between, in_order


@given(st.permutations(range(7)))
def test_the_most_anchors_in_order_are_kept(places: list[int]) -> None:
    anchors = list(enumerate(places))
    best = max(
        size
        for size in range(8)
        for chosen in combinations(anchors, size)
        if all(one[1] < two[1] for one, two in pairwise(chosen))
    )
    kept = in_order(anchors)
    assert len(kept) == best
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(kept))


def test_stretches_are_what_stands_between_anchors() -> None:
    ours = [(0, "a"), (2, "b"), (3, "c"), (9, "d")]
    theirs = [(1, "A"), (4, "B"), (9, "D")]
    assert between([(1, 2), (5, 6)], ours, theirs) == [
        ([(0, "a")], [(1, "A")]),
        ([(2, "b"), (3, "c")], [(4, "B")]),
        ([(9, "d")], [(9, "D")]),
    ]


def test_without_anchors_all_is_one_stretch() -> None:
    assert between([], [(0, "a")], [(5, "b")]) == [([(0, "a")], [(5, "b")])]
    assert between([], [], [(5, "b")]) == []
