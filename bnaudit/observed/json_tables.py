"""Observed scores in JSON: a value on each line, one list of them, or one object of lists."""

from __future__ import annotations

import json
from typing import Any

from bnaudit.errors import UnreadableError
from bnaudit.observed.tables import MOST_VALUES, Table, Written

_LINES = "write one JSON object on each line"


def json_table(text: str, name: str) -> Table:
    """The columns of a text. Raises UnreadableError for what is no JSON, or not the same on every line."""
    whole = _whole(text)
    if isinstance(whole, dict) and whole and all(isinstance(each, list) for each in whole.values()) and _equal(whole):
        first = next(iter(whole.values()))
        if first and not _is_one_row(whole):
            return _checked(Table(name, whole, len(first)))
    if isinstance(whole, list) and whole and all(isinstance(each, (dict, list)) for each in whole):
        return _table(whole, [], name)
    entries, lines = _entries(text, name)
    return _table(entries, lines, name)


def _is_one_row(columns: dict[str, list[Any]]) -> bool:
    """One object on one line, whose only list is the scores of one observation."""
    return len(columns) == 1 and not isinstance(next(iter(columns.values()))[0], list)


def _equal(columns: dict[str, list[Any]]) -> bool:
    return len({len(each) for each in columns.values()}) == 1


def _whole(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Written)
    except (ValueError, RecursionError):
        return None


def _entries(text: str, name: str) -> tuple[list[Any], list[int]]:
    entries, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append(json.loads(line, parse_float=Written))
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply or too long"
            raise UnreadableError(f"this is no JSON: {why}", where=f"{name}, line {number}", remedy=_LINES) from error
        lines.append(number)
    if not entries:
        raise UnreadableError("there is no observation", where=name, remedy="write at least one line")
    return entries, lines


def _table(entries: list[Any], lines: list[int], name: str) -> Table:
    """Objects by their names; lists are rows of scores, numbers are rows of one."""
    where = Table(name, {}, len(entries), lines)
    kinds = {type(entry) for entry in entries}
    if kinds == {dict}:
        names = list(dict.fromkeys(key for entry in entries for key in entry))
        if len(names) * len(entries) > MOST_VALUES:
            raise UnreadableError("the observed scores are too many", where=name, remedy="give fewer rows")
        return _checked(where._replace(columns={key: [entry.get(key) for entry in entries] for key in names}))
    if dict in kinds or (list in kinds and len(kinds) > 1):
        row = next(i for i, entry in enumerate(entries) if type(entry) is not type(entries[0]))
        raise where.refusal("this is another kind of value than the first", row, _LINES)
    return _checked(where._replace(columns={"": entries}, has_names=False))


def _checked(table: Table) -> Table:
    """The table, with every cell a plain value or a list of as many numbers as in the other rows."""
    for name, cells in table.columns.items():
        lists = [(row, cell) for row, cell in enumerate(cells) if isinstance(cell, list)]
        for row, cell in enumerate(cells):
            if isinstance(cell, dict) or (isinstance(cell, list) and any(isinstance(v, (list, dict)) for v in cell)):
                raise table.refusal(f"{name!r} is nested", row, "write numbers, or one flat list of them")
            if lists and isinstance(cell, list) and len(cell) != len(lists[0][1]):
                what = f"{name!r} has {len(cell)} numbers here and {len(lists[0][1])} in the first row"
                raise table.refusal(what, row, "write as many in every row, null where one was not logged")
    return table
