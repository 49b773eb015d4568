from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from bnaudit.matching.subsequence import unambiguous

WORDS = st.text("abc", max_size=6)


def longest(one: str, other: str) -> list[frozenset[tuple[int, int]]]:
    """All longest common subsequences, as positions, by trying every choice."""
    for size in range(min(len(one), len(other)), 0, -1):
        found = [
            frozenset(zip(ours, theirs, strict=True))
            for ours in combinations(range(len(one)), size)
            for theirs in combinations(range(len(other)), size)
            if all(one[i] == other[j] for i, j in zip(ours, theirs, strict=True))
        ]
        if found:
            return found
    return [frozenset()]


@given(WORDS, WORDS)
def test_what_every_longest_one_has_is_found_and_what_is_found_is_common(one: str, other: str) -> None:
    every = longest(one, other)
    found = set(unambiguous(one, other))
    assert frozenset.intersection(*every) == found
    assert all(one[i] == other[j] for i, j in found)
    assert len({i for i, _ in found}) == len({j for _, j in found}) == len(found)


def test_equal_sequences_are_paired_in_full() -> None:
    assert unambiguous("aabba", "aabba") == [(i, i) for i in range(5)]


def test_one_of_two_alike_is_open() -> None:
    assert unambiguous("aa", "a") == unambiguous("a", "aa") == []
    assert unambiguous("aab", "ab") == [(2, 1)]


def test_long_sequences_take_no_square_of_time() -> None:
    one = [at % 97 for at in range(4000)]
    assert len(unambiguous(one, [*one[:2000], -1, *one[2000:]])) == 4000
