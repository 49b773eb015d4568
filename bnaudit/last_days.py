"""The last day on which an accepted finding fails nothing: how it is written, and whether it is over."""

from __future__ import annotations

import re
from datetime import date


def day_of(text: str) -> date | None:
    """The day of `2027-01-31`, the one way to write it that every version of Python reads; None: it is no day."""
    try:
        return date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None


def is_over(until: str, today: date) -> bool:
    """Whether the last day has passed; "" never has. `until` is a day, as `day_of` reads it."""
    return bool(until) and date.fromisoformat(until) < today
