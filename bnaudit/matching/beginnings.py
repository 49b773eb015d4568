"""How far sequences begin alike."""

from __future__ import annotations

from collections.abc import Sequence


def shared_beginning(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def shared_end(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items both end with."""
    return shared_beginning(one[::-1], other[::-1])
