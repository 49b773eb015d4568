"""Numbers as JSON can hold them."""

from __future__ import annotations

import math


def number(value: float | int | str | None) -> float | int | str | None:
    """A number that JSON can hold: NaN and infinities as the strings NaN, Infinity, -Infinity."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(value)
    return value
