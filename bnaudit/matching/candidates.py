"""Names of two artifacts that may belong together, found without comparing each with each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

_DEEPEST = 6
"""Pieces at the end or the beginning of a name that are looked at."""


def likely_pairs(subject: Sequence[str], baseline: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs (subject's, baseline's): alone with the same ending, alone with the same beginning, at the same place."""
    for depth in range(1, _DEEPEST + 1):
        yield from _alone_with(subject, baseline, slice(-depth, None))
        yield from _alone_with(subject, baseline, slice(None, depth))
    for one, other in ((subject, baseline), (subject[::-1], baseline[::-1])):
        yield from islice(zip(one, other, strict=False), 2048)


def _alone_with(subject: Sequence[str], baseline: Sequence[str], end: slice) -> Iterator[tuple[str, str]]:
    ours, theirs = _single(subject, end), _single(baseline, end)
    for key, name in ours.items():
        other = theirs.get(key)
        if name is not None and other is not None:
            yield name, other


def _single(names: Sequence[str], end: slice) -> dict[tuple[str, ...], str | None]:
    """By their ending (or beginning) the names that are alone with it; None for several."""
    found: dict[tuple[str, ...], str | None] = {}
    for name in names:
        key = tuple(name.split(".")[end])
        found[key] = None if key in found else name
    return found
