"""Where samples meet, read off two forwards."""

from __future__ import annotations

from bnaudit.mixing import emerging, mixing
from bnaudit.records import replace
from bnaudit.session import OperatorCall, Place


def call(
    index: int, operator: str, rows_in: tuple[int, ...] | None, rows_out: tuple[int, ...] | None, others: int = 0
) -> OperatorCall:
    return OperatorCall(
        index=index,
        place=Place(operator=operator),
        rows_in=rows_in,
        others_in=others,
        rows_out=rows_out,
        others_out=None,
    )


def test_the_operator_that_anchors_enter_equal_and_leave_unequal_is_named() -> None:
    first = [call(0, "conv", (1, 2), (3, 4)), call(1, "norm", (3, 4), (5, 6)), call(2, "relu", (5, 6), (7, 8))]
    second = [call(0, "conv", (1, 2), (3, 4)), call(1, "norm", (3, 4), (5, 9)), call(2, "relu", (5, 9), (7, 0))]
    assert mixing(first, second) == [first[1]]


def test_one_anchor_that_already_differs_going_in_is_not_laid_at_the_door_of_what_follows() -> None:
    first, second = [call(0, "relu", (1, 2), (3, 4))], [call(0, "relu", (1, 9), (3, 8))]
    assert mixing(first, second) == []


def test_a_batch_wide_scalar_is_seen_where_it_is_used() -> None:
    first = [call(0, "max", (1, 2), None), call(1, "mul", (1, 2), (3, 4), others=7)]
    second = [call(0, "max", (1, 2), None), call(1, "mul", (1, 2), (5, 6), others=8)]
    assert mixing(first, second) == [first[1]]


def test_comparison_ends_where_the_forwards_take_different_ways() -> None:
    first = [call(0, "mm", (1,), (2,)), call(1, "relu", (3,), (4,)), call(2, "add", (5,), (6,))]
    second = [call(0, "mm", (1,), (2,)), call(1, "tanh", (3,), (9,)), call(2, "add", (5,), (7,))]
    assert mixing(first, second) == []


def test_the_shorter_forward_ends_the_comparison() -> None:
    first = [call(0, "mm", (1,), (2,)), call(1, "roll", (2,), (3,))]
    assert mixing(first, [*first[:1], call(1, "roll", (2,), (4,)), call(2, "add", (5,), (7,))]) == [first[1]]
    assert mixing(first, first[:1]) == []


def test_operators_without_rows_prove_nothing() -> None:
    first = [call(0, "sum", None, (2,)), call(1, "sum", (2,), None)]
    second = [call(0, "sum", None, (3,)), call(1, "sum", (2,), None)]
    assert mixing(first, second) == []


def test_rows_put_together_from_slices_of_the_batch_are_seen_while_all_before_was_equal() -> None:
    first = [call(0, "slice", (1, 2), None), call(1, "concat", None, (3, 4), others=7), call(2, "add", (1, 3), (5, 6))]
    second = [call(0, "slice", (1, 2), None), call(1, "concat", None, (3, 9), others=8), call(2, "add", (1, 9), (5, 0))]
    assert mixing(first, second) == [first[1]]
    before = [call(0, "softmax", (1, 2), (3, 4)), *first], [call(0, "softmax", (1, 2), (3, 5)), *second]
    assert mixing(*before) == [before[0][0]], "behind a place that mixes, everything without rows differs"


def test_what_is_handed_other_values_behind_a_place_that_mixes_is_not_named() -> None:
    """A scatter of rows that a norm before it had already mixed."""
    before = call(0, "norm", (1, 2), (3, 4)), call(0, "norm", (1, 2), (3, 5))
    scatter = [call(1, "index_add", (6, 6), (7, 8), others=others) for others in (1, 2)]
    assert mixing([before[0], scatter[0]], [before[1], replace(scatter[1], rows_out=(7, 9))]) == [before[0]]


def test_what_gathered_the_batch_is_told_only_where_its_value_differs() -> None:
    mean = Place(operator="mean")
    first = [replace(call(0, "sub", (1, 2), (3, 4), others=others), gathered=mean) for others in (7, 7)]
    second = [call(0, "sub", (1, 2), (5, 6), others=others) for others in (8, 7)]
    differing, same = mixing(first, second)
    assert (differing.gathered, same.gathered) == (mean, None)


def test_rows_that_no_operator_made_unequal_emerge() -> None:
    first, second = [call(0, "mm", (1,), (2,)), call(1, "add", (3,), (4,))], [call(0, "mm", (1,), (2,))]
    assert emerging(first, [*second, call(1, "add", (9,), (8,))]) is first[1]
    assert emerging(first, [call(0, "mm", (1,), (5,)), call(1, "add", (9,), (8,))]) is None, "mm made them unequal"
    assert emerging(first, first) is None


def test_a_figure_of_the_batch_that_enters_behind_a_place_that_mixes_is_named() -> None:
    """Minibatch statistics behind a norm in training mode."""
    before = call(0, "norm", (1, 2), (3, 4)), call(0, "norm", (1, 2), (3, 5))
    enters = [
        replace(call(1, "mul", (6, 6), rows, others=others), gathered=Place(operator="aten.var"))
        for others, rows in enumerate([(7, 8), (7, 9)])
    ]
    found = mixing([before[0], enters[0]], [before[1], enters[1]])
    assert [each.place.operator for each in found] == ["norm", "mul"]
