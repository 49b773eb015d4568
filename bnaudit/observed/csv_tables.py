"""Observed scores in comma-separated text, with or without a header."""

from __future__ import annotations

import csv
import io

from bnaudit.errors import UnreadableError
from bnaudit.observed.tables import MOST_VALUES, Table
from bnaudit.observed.written import is_number

_DELIMITERS = (",", ";", "\t", "|")
_LONGEST_CELL = 1_000_000


def csv_table(text: str, name: str) -> Table:
    """The columns of a text; its delimiter is the one that the first line has most of.

    Raises UnreadableError for rows of different lengths, a repeated name, and a text without a row.
    """
    rows, lines = _rows(text, name)
    if not rows:
        raise UnreadableError("there is no observation", where=name, remedy="write at least one row")
    header = None if all(is_number(cell) or not cell for cell in rows[0]) else [cell.strip() for cell in rows[0]]
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            what = f"this row has {len(row)} cells and the first has {width}"
            remedy = "write one cell for each column, and decimal points, no decimal commas"
            raise UnreadableError(what, where=f"{name}, line {line}", remedy=remedy)
    if header is None:
        return Table(name, {str(i): column for i, column in enumerate(_columns(rows))}, len(rows), lines, False)
    _check_header(header, name, lines[0])
    if len(rows) == 1:
        raise UnreadableError("there is a header and no observation", where=name, remedy="write at least one row")
    return Table(name, dict(zip(header, _columns(rows[1:]), strict=True)), len(rows) - 1, lines[1:])


def _columns(rows: list[list[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _rows(text: str, name: str) -> tuple[list[list[str]], list[int]]:
    """The rows that are not blank, and the lines on which they end."""
    lines = text.splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].startswith("#"):
        lines[first] = lines[first][1:].lstrip(" ")
    delimiter = _delimiter(lines[first]) if lines else ","
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter, skipinitialspace=True)
    csv.field_size_limit(_LONGEST_CELL)
    rows, ends, values = [], [], 0
    try:
        for row in reader:
            if not any(cell.strip() for cell in row) and len(row) < 2:
                continue
            rows.append([cell.strip() for cell in row])
            ends.append(reader.line_num)
            values += len(row)
            if values > MOST_VALUES:
                raise UnreadableError("the observed scores are too many", where=name, remedy="give fewer rows")
    except csv.Error as error:
        what = f"the text is no CSV: {error}"
        where = f"{name}, line {reader.line_num + 1}"
        raise UnreadableError(what, where=where, remedy="write one row on each line") from error
    return rows, ends


def _delimiter(line: str) -> str:
    """What stands most often in the first line; white space when none of the usual ones does."""
    found = max(_DELIMITERS, key=line.count)
    if line.count(found):
        return found
    return " " if " " in line.strip() else ","


def _check_header(header: list[str], name: str, line: int) -> None:
    repeated = next((each for i, each in enumerate(header) if each and each in header[:i]), None)
    if repeated is not None:
        what = f"two columns are called {repeated!r}"
        raise UnreadableError(what, where=f"{name}, line {line}", remedy="give every column its own name")
