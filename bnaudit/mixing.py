"""Where samples of one batch meet, read off two forwards that differ in the companions alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bnaudit.session import OperatorCall


def mixing(first: Sequence[OperatorCall], second: Sequence[OperatorCall]) -> list[OperatorCall]:
    """The operators of `first` that all anchors' rows entered equal in both forwards, and not all left equal.

    Calls are aligned by position and operator. Where the forwards took different ways the comparison ends, since what
    follows cannot be told apart from other work on other data.
    """
    return [
        one
        for one, other in _aligned(first, second)
        if one.rows_in is not None
        and one.rows_out is not None
        and other.rows_out is not None
        and one.rows_in == other.rows_in
        and one.rows_out != other.rows_out
    ]


def _aligned(
    first: Sequence[OperatorCall], second: Sequence[OperatorCall]
) -> Iterator[tuple[OperatorCall, OperatorCall]]:
    for one, other in zip(first, second, strict=False):
        if one.place.operator != other.place.operator:
            return
        yield one, other
