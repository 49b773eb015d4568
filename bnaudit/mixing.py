"""Where samples of one batch meet, read off two forwards that differ in the companions alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bnaudit.records import replace
from bnaudit.session import OperatorCall

_REDUCES = re.compile(
    r"(?:aten[.:]+)?(?:var|std|mean|sum|a?max|a?min|aminmax|median|norm|linalg_vector_norm|logsumexp)(?:_mean)?|Reduce\w+"
)


def mixing(first: Sequence[OperatorCall], second: Sequence[OperatorCall]) -> list[OperatorCall]:
    """The operators of `first` that all anchors' rows entered equal in both forwards, and not all left equal.

    As long as all rows were equal, also one that puts rows together from values without rows, such as slices of the
    batch; once they were not, none that was handed other values, which may bring what met before, but for a figure of
    the whole batch. Calls are aligned by position and operator. Where the forwards took different ways the comparison
    ends, since what follows cannot be told apart from other work on other data. What an operator was handed by others
    is left out where it was the same in both.
    """
    found = []
    equal = True
    for one, other in _aligned(first, second):
        handed = equal or one.others_in == other.others_in or _is_handed_a_figure(one)
        if (_meets(one, other) and handed) or (equal and _appears(one, other)):
            found.append(one if one.others_in != other.others_in else _by_itself(one))
        equal = equal and one.rows_in == other.rows_in and one.rows_out == other.rows_out
    return found


def emerging(first: Sequence[OperatorCall], second: Sequence[OperatorCall]) -> OperatorCall | None:
    """The first operator of `first` that gets unequal rows although no operator before returned any."""
    for one, other in _aligned(first, second):
        if one.rows_in != other.rows_in:
            return one
        if one.rows_out != other.rows_out:
            return None
    return None


def _meets(one: OperatorCall, other: OperatorCall) -> bool:
    return one.rows_in is not None and one.rows_in == other.rows_in and _leave_unequal(one, other)


def _is_handed_a_figure(call: OperatorCall) -> bool:
    return call.gathered is not None and _REDUCES.fullmatch(call.gathered.operator) is not None


def _appears(one: OperatorCall, other: OperatorCall) -> bool:
    return one.rows_in is None is other.rows_in and one.others_in != other.others_in and _leave_unequal(one, other)


def _leave_unequal(one: OperatorCall, other: OperatorCall) -> bool:
    return one.rows_out is not None and other.rows_out is not None and one.rows_out != other.rows_out


def _by_itself(call: OperatorCall) -> OperatorCall:
    return call if call.gathered is None else replace(call, gathered=None)


def _aligned(
    first: Sequence[OperatorCall], second: Sequence[OperatorCall]
) -> Iterator[tuple[OperatorCall, OperatorCall]]:
    for one, other in zip(first, second, strict=False):
        if one.place.operator != other.place.operator:
            return
        yield one, other
