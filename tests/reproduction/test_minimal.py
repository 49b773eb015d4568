"""ddmin: what is left fails, nothing of it can be left out, and nothing is asked twice."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bnaudit.reproduction.minimal import minimal

Items = tuple[int, ...]


def counted(fails: Callable[[Items], bool]) -> tuple[Callable[[Items], bool], list[Items]]:
    asked: list[Items] = []

    def ask(part: Items) -> bool:
        asked.append(part)
        return fails(part)

    return ask, asked


@given(st.integers(0, 40), st.sets(st.integers(0, 39), max_size=6))
def test_a_needed_set_is_found_exactly(size: int, needed: set[int]) -> None:
    needed = {item for item in needed if item < size}
    fails, asked = counted(lambda part: needed <= set(part))
    assert minimal(tuple(range(size)), fails) == tuple(sorted(needed))
    assert len(asked) == len(set(asked))
    assert len(asked) <= size**2 + 3 * size + 1  # the worst case of the paper


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=24))
def test_of_what_is_left_no_single_item_can_go(items: list[int]) -> None:
    def fails(part: Items) -> bool:
        """Not monotone: a larger part may fail where a smaller one does not."""
        return sum(part) % 3 == sum(items) % 3 and len(part) % 2 == len(items) % 2

    left = minimal(items, fails)
    assert fails(left)
    for at in range(len(left)):
        assert not fails(left[:at] + left[at + 1 :])


def test_one_of_many_costs_few_questions() -> None:
    fails, asked = counted(lambda part: 77 in part)
    assert minimal(range(128), fails) == (77,)
    assert len(asked) <= 20


def test_it_stops_when_told_with_what_it_has() -> None:
    left = iter([True] * 4)
    found = minimal(range(64), lambda part: {3, 60} <= set(part), lambda: next(left, False))
    assert {3, 60} <= set(found)


def test_nothing_may_be_enough() -> None:
    assert minimal((1, 2, 3), lambda part: True) == ()
    assert minimal((), lambda part: False) == ()
