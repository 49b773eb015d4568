"""What every picture comes with: how to read it, what it shows in words, and its numbers."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup


class Standing(Enum):
    """How a mark stands to the limit; drawn as a shape and a colour, and written in the table."""

    WITHIN = "within"
    BEYOND = "beyond"
    OPEN = "open"
    UNUSED = "unused"


SHAPES = {Standing.WITHIN: "o", Standing.BEYOND: "^", Standing.OPEN: "D", Standing.UNUSED: "x"}
"""matplotlib's markers; OPEN is drawn hollow."""
SIGNS = {Standing.WITHIN: "●", Standing.BEYOND: "▲", Standing.OPEN: "◇", Standing.UNUSED: "×"}
"""The same in a line of text."""


class Mark(NamedTuple):
    """One layer, or one comparison, in a picture."""

    name: str
    value: float
    standing: Standing
    words: str
    """Shown when it is pointed at, behind the name."""
    part: str = ""
    low: float | None = None
    """A range around the value, with `high`."""
    high: float | None = None
    error: float | None = None
    """What sampling alone explains, drawn as a short line."""


class Key(NamedTuple):
    """One line of a legend."""

    sign: str
    standing: str
    words: str


class Table(NamedTuple):
    """The numbers of a picture; `None` is a value that there is not."""

    head: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]


class Picture(NamedTuple):
    """One picture."""

    key: str
    """Unique within an artifact."""
    title: str
    how: str
    """One sentence: how to read it."""
    svg: Markup
    summary: str
    """What it shows, in words."""
    legend: tuple[Key, ...]
    table: Table


class Plain(NamedTuple):
    """A picture that would show nothing: the one thing it would say."""

    title: str
    summary: str


def legend(marks: tuple[Mark, ...], words: dict[Standing, str]) -> tuple[Key, ...]:
    """A line for every standing that occurs."""
    there = {mark.standing for mark in marks}
    return tuple(Key(SIGNS[each], each.value, text) for each, text in words.items() if each in there)


def named(marks: tuple[Mark, ...], standing: Standing, most: int = 4) -> str:
    """`bn1, layer1.0.bn1 and 3 more`, "" when there is none."""
    names = [shown(mark.name) for mark in marks if mark.standing is standing]
    listed = ", ".join(names[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed


def shown(name: str, longest: int = 60) -> str:
    """A layer's name in a sentence or below an axis: of a long one the end, which tells layers apart."""
    name = name or "(root)"
    return name if len(name) <= longest else f"…{name[1 - longest :]}"
