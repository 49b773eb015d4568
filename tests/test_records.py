from __future__ import annotations

import copy
import pickle

import pytest

from bnaudit.records import Record, replace


class Point(Record):
    """Compares by value."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        return self.x + self.y


class Thing(Record, eq=False):
    """Compares by identity."""

    name: str
    parts: tuple[str, ...] = ()


def test_fields_come_by_keyword_with_defaults() -> None:
    point = Point(x=1)
    assert (point.x, point.y, point.total) == (1, 2, 3)
    assert repr(point) == "Point(x=1, y=2)"


def test_missing_and_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="Point needs x"):
        Point(y=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has no z"):
        Point(x=1, z=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[misc]


def test_records_are_frozen_and_slotted() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 5  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_equality_is_by_value_or_by_identity() -> None:
    assert Point(x=1) == Point(x=1, y=2) != Point(x=2)
    assert len({Point(x=1), Point(x=1), Point(x=3)}) == 2
    assert Point(x=1) != Thing(name="1")
    assert Thing(name="a") != Thing(name="a")


def test_copies_replace_fields_and_survive_pickling() -> None:
    point = Point(x=1)
    assert replace(point, y=7) == Point(x=1, y=7)
    with pytest.raises(TypeError, match="has no z"):
        replace(point, z=1)
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point
