"""Writes a set of layer names as one pattern, the way a person would: `layer{1..4}.{0..5}.bn{1,2,3}`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from math import prod
from typing import NamedTuple

from bnaudit.printable import printable

_NUMBER = re.compile(r"(\d+)")
_LISTED = 4
_Pieces = tuple[str, ...]


class Universe:
    """All names that exist, indexed once for many calls of `compress`."""

    __slots__ = ("numbers",)

    def __init__(self, names: Iterable[str]) -> None:
        self.numbers: defaultdict[_Pieces, set[_Pieces]] = defaultdict(set)
        """The texts between the numbers of a name -> the numbers of all names with these texts."""
        for name in names:
            row = _Row.of(name)
            self.numbers[row.texts].add(row.numbers)


def compress(names: Iterable[str], universe: Iterable[str] | Universe) -> list[tuple[str, tuple[str, ...]]]:
    """Patterns that together select exactly `names` among `universe`, each with the names it stands for.

    A pattern is exact with respect to the names that exist: `layer{1..4}.{0..5}.bn1` may stand for fewer than
    4 × 6 layers, but no existing layer outside the set fits it. Patterns come in the order of their first name.
    """
    existing = (universe if isinstance(universe, Universe) else Universe(universe)).numbers
    order = {name: position for position, name in enumerate(names)}
    groups: dict[_Pieces, list[_Row]] = defaultdict(list)
    for name in order:
        row = _Row.of(name)
        groups[row.texts].append(row)
    found = [
        (_label(cluster), tuple(row.name for row in cluster))
        for texts, members in groups.items()
        for cluster in _clusters(members, existing.get(texts, set()), {row.numbers for row in members})
    ]
    return sorted(found, key=lambda entry: order[entry[1][0]])


def listed(names: Iterable[str], universe: Iterable[str]) -> str:
    """At most four patterns, for a sentence that may be printed; `the model itself` for the name of the root, ""."""
    patterns = [printable(label) or "the model itself" for label, _ in compress(names, universe)]
    return ", ".join([*patterns[:_LISTED], *(["…"] if len(patterns) > _LISTED else [])])


class _Row(NamedTuple):
    """A name and its pieces: texts before, between and behind the numbers."""

    name: str
    texts: _Pieces
    numbers: _Pieces

    @classmethod
    def of(cls, name: str) -> _Row:
        pieces = _NUMBER.split(name)
        return cls(name, tuple(pieces[::2]), tuple(pieces[1::2]))


def _clusters(rows: list[_Row], existing: set[_Pieces], chosen: set[_Pieces]) -> list[list[_Row]]:
    columns = [set(column) for column in zip(*(row.numbers for row in rows), strict=True)]
    others = _others(columns, existing, chosen) if len(rows) > 1 else None
    if not others:
        return [rows]
    splits = []
    for position, values in enumerate(columns):
        if len(values) > 1:
            by_value: dict[str, list[_Row]] = defaultdict(list)
            for row in rows:
                by_value[row.numbers[position]].append(row)
            splits.append(list(by_value.values()))
    # The position with the fewest values splits least; each piece is then tried again.
    least = min(splits, key=len, default=[rows])
    return [cluster for piece in least for cluster in _clusters(piece, others, chosen)]


def _others(columns: list[set[str]], existing: set[_Pieces], chosen: set[_Pieces]) -> set[_Pieces]:
    """Numbers of existing names that a pattern of these columns would select without being asked to."""
    if prod(map(len, columns)) < len(existing):
        return {numbers for numbers in product(*columns) if numbers in existing and numbers not in chosen}
    return {numbers for numbers in existing if numbers not in chosen and _fits(numbers, columns)}


def _fits(numbers: _Pieces, columns: list[set[str]]) -> bool:
    return all(number in values for number, values in zip(numbers, columns, strict=True))


def _label(rows: list[_Row]) -> str:
    if len(rows) == 1:
        return rows[0].name
    texts = rows[0].texts
    ranges = [_range(set(column)) for column in zip(*(row.numbers for row in rows), strict=True)]
    return "".join(text + span for text, span in zip(texts, (*ranges, ""), strict=True))


def _range(values: set[str]) -> str:
    if len(values) == 1:
        return next(iter(values))
    runs: list[list[str]] = []
    previous = -2
    for number in sorted(values, key=lambda text: (len(text.lstrip("0")), text.lstrip("0"), text)):
        following = len(number) < 18 and int(number) == previous + 1
        if following:
            runs[-1].append(number)
        else:
            runs.append([number])
        previous = int(number) if len(number) < 18 else -2
    pieces: list[str] = []
    for run in runs:
        pieces.extend(run if len(run) < 4 else [f"{run[0]}..{run[-1]}"])
    return "{" + ",".join(pieces) + "}"
