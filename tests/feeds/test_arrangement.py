"""Anchors stay where and what they are, companions change: for every size, number of samples and seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.feeds.arrangement import choose, rows_for

sizes = st.integers(1, 40)
wanted = st.integers(1, 12)


@given(sizes, wanted)
def test_anchors_and_companions_share_the_rows(size: int, anchors: int) -> None:
    rows = rows_for(size, anchors)
    assert sorted({*rows.anchors, *rows.companions}) == list(range(size))
    assert list(rows.anchors) == sorted(set(rows.anchors))
    assert 1 <= len(rows.anchors) <= anchors
    assert size == 1 or len(rows.companions) >= size // 2
    assert rows.alone in rows.anchors


@given(sizes, wanted)
def test_two_anchors_or_more_stand_at_both_ends(size: int, anchors: int) -> None:
    rows = rows_for(size, anchors)
    if len(rows.distinct) >= 2:
        assert rows.anchors[0] == 0
        assert rows.anchors[-1] == size - 1


@given(sizes, wanted)
def test_the_copy_is_of_the_first_anchor_and_none_of_the_others(size: int, anchors: int) -> None:
    rows = rows_for(size, anchors)
    assert (rows.copy is None) == (len(rows.anchors) < 3)
    if rows.copy is not None:
        assert rows.copy[0] == 0
        assert 0 < rows.copy[1] < size - 1


def test_the_default_batch_has_an_anchor_in_the_middle_which_is_fed_alone() -> None:
    rows = rows_for(16, 4)
    assert rows.distinct == (0, 8, 15)
    assert rows.copy == (0, 4)
    assert rows.alone == 8


def test_a_lone_anchor_of_two_rows_is_the_one_behind() -> None:
    assert rows_for(2, 4).anchors == (1,)


@given(sizes, wanted, st.integers(1, 60), st.integers(0, 5))
def test_every_companion_changes_and_no_anchor_does(size: int, anchors: int, samples: int, seed: int) -> None:
    rows = rows_for(size, anchors)
    choice = choose(rows, list(range(samples)), np.random.default_rng(seed))
    assert len(choice.base) == len(choice.swapped) == size
    assert all(choice.base[row] == choice.swapped[row] for row in rows.anchors)
    if samples == 1:
        assert choice.base == choice.swapped
        return
    assert all(choice.base[row] != choice.swapped[row] for row in rows.companions)
    if rows.companions:
        one, other = (Counter(batch[row] for row in rows.companions) for batch in (choice.base, choice.swapped))
        assert one != other, "a permutation leaves batch statistics as they are"


@given(sizes, wanted, st.integers(2, 60))
def test_anchors_differ_as_far_as_there_are_samples(size: int, anchors: int, samples: int) -> None:
    rows = rows_for(size, anchors)
    choice = choose(rows, list(range(samples)), np.random.default_rng(0))
    own = [choice.base[row] for row in rows.distinct]
    assert len(set(own)) == min(len(own), samples)
    if rows.copy is not None:
        assert choice.base[rows.copy[0]] == choice.base[rows.copy[1]]


@given(st.integers(2, 20), wanted)
def test_with_enough_samples_none_is_used_twice(size: int, anchors: int) -> None:
    rows = rows_for(size, anchors)
    needed = len(rows.distinct) + 2 * len(rows.companions)
    choice = choose(rows, list(range(needed)), np.random.default_rng(0))
    assert choice.samples == needed
    assert not choice.repeated
