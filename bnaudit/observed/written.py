"""Numbers as they are written: parsed exactly, and how finely."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bnaudit.observed.tables import Table, Written

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_MISSING = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
_INFINITE = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})


def is_number(text: str) -> bool:
    """Whether a text is a number, NaN or infinite, written with a decimal point."""
    return _NUMBER.fullmatch(text) is not None or text.lower() in ("nan", *_INFINITE)


def is_missing(cell: object) -> bool:
    """Whether a cell says that nothing was logged."""
    return cell is None or (isinstance(cell, str) and cell.lower() in _MISSING) or cell != cell


def parsed(cell: object, column: str, table: Table, row: int) -> float:
    """The number in a cell, NaN where nothing was logged. Raises UnreadableError for anything else."""
    if is_missing(cell):
        return float("nan")
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:
            return float("inf")
    if isinstance(cell, str) and is_number(cell.strip()):
        return float(cell)
    remedy = "write numbers with a decimal point and nothing else, and leave empty what was not logged"
    if isinstance(cell, str) and re.fullmatch(r"[+-]?[0-9.\s]*,[0-9]+", cell.strip()):
        remedy = "write a decimal point, not a decimal comma"
    raise table.refusal(f"{_shown(cell)} in column {column!r} is no number", row, remedy)


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}…"


class Digits:
    """How many digits the numbers of some cells are written with."""

    def __init__(self) -> None:
        self.decimals: list[int] = []
        self.significant: list[int] = []
        self.steps: list[float] = []
        self._zeros = 0

    def add(self, cell: object) -> None:
        """Note one cell; numbers of arrays and integers of JSON say nothing of how they were written."""
        text = cell if isinstance(cell, str) else cell.text if isinstance(cell, Written) else None
        if isinstance(cell, int) and not isinstance(cell, bool):
            text = str(cell)
        if text is None or _NUMBER.fullmatch(text.strip()) is None:
            return
        mantissa, _, exponent = text.strip().lower().partition("e")
        whole, _, fraction = mantissa.lstrip("+-").partition(".")
        decimals = len(fraction) - int(exponent or 0)
        digits = (whole + fraction).lstrip("0")
        if not digits:
            self._zeros = max(self._zeros, min(decimals, _FINEST_FIXED))
            return  # it fits every step
        self.decimals.append(max(decimals, 0))
        self.significant.append(len(digits))
        self.steps.append(10.0 ** -max(decimals, -300))

    def step(self) -> float | None:
        """The rounding step; None when the numbers are written as finely as float32 is.

        Fixed decimals: nearly all numbers end at the same place (a tenth of them ends in a zero that is not written).
        Significant digits: the place moves with the size; the root mean square of the steps stands for them.
        """
        if not self.decimals:
            return 10.0**-self._zeros if self._zeros else None
        finest = max(self.decimals)
        longest = max(self.significant)
        if _share(self.decimals, finest) >= _MOST and finest <= _FINEST_FIXED:
            return None if longest >= _EXACT and len(self.decimals) < _FEW else 10.0**-finest
        if _share(self.significant, longest) >= _MOST and longest < _EXACT:
            return float((sum(step * step for step in self.steps) / len(self.steps)) ** 0.5)
        return 10.0**-finest if longest < _EXACT and finest < _EXACT else None


_MOST = 0.75
_EXACT = 7
"""Significant digits from which on a number may be a float32 in full."""
_FINEST_FIXED = 9
_FEW = 4
"""With fewer numbers, decimals in common may be a coincidence."""


def _share(counts: Sequence[int], value: int) -> float:
    return sum(count == value for count in counts) / len(counts)
