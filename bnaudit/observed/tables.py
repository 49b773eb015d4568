"""The table that every file of observed scores becomes: named columns of equal length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bnaudit.errors import UnreadableError

MOST_BYTES = 128 * 2**20
"""Of text; more is no longer held in memory."""
MOST_VALUES = 20_000_000


class Table(NamedTuple):
    """Columns by name. A column is a list of cells (texts of .csv, values of .json), or an array with rows."""

    name: str
    """Of the file."""
    columns: Mapping[str, Any]
    rows: int
    lines: Sequence[int] = ()
    """Line of each row in the file; empty: rows are counted from 0, as in arrays."""
    has_names: bool = True
    """False: the columns have no names in the file."""

    def place(self, row: int) -> str:
        """Where a row stands, for a sentence."""
        return f"{self.name}, line {self.lines[row]}" if self.lines else f"{self.name}, row {row}"

    def refusal(self, what: str, row: int, remedy: str) -> UnreadableError:
        """The sentence on what is wrong in a row."""
        return UnreadableError(what, where=self.place(row), remedy=remedy)


class Written(float):
    """A number with the text that it was written in."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Written:
        made = super().__new__(cls, text)
        made.text = text
        return made
