"""What is printed follows from what is printed before it, and is what double precision gives."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.tracing import by_hand
from bnaudit.tracing.by_hand import Number

singles = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-1e6, max_value=1e6)


def decimals(number: Number) -> Decimal:
    """The text as a person reads it."""
    return Decimal(number.text.replace("−", "-"))


def last_place(number: Number) -> Decimal:
    """Half a unit of the last printed digit."""
    text = number.text.replace("−", "-")
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent) / 2


@given(singles)
def test_a_stored_number_is_printed_in_the_fewest_digits_that_give_it_back(value: float) -> None:
    printed = np.float32(str(decimals(by_hand.stored(value))))
    assert printed == np.float32(value)
    assert len(decimals(by_hand.stored(value)).as_tuple().digits) <= 9


def test_numbers_read_as_a_person_writes_them() -> None:
    shown = [by_hand.stored(float(np.float32(value))).text for value in (0.1, -2.5, 1e-5, 0.0, 3e-9, 1e12, 440)]
    assert shown == ["0.1", "−2.5", "0.00001", "0", "3e−9", "1e12", "440"]
    assert by_hand.times(by_hand.stored(10001.0), by_hand.stored(10001.0)).text == "1.0002e8"  # of 100020001
    assert [by_hand.written(value) for value in (math.nan, math.inf, -math.inf)] == ["NaN", "∞", "−∞"]


@given(singles, singles)
def test_a_result_follows_from_the_printed_operands(one: float, other: float) -> None:
    first, second = by_hand.stored(one), by_hand.stored(other)
    for result, exact in (
        (by_hand.plus(first, second), decimals(first) + decimals(second)),
        (by_hand.minus(first, second), decimals(first) - decimals(second)),
        (by_hand.times(first, second), decimals(first) * decimals(second)),
    ):
        assert abs(decimals(result) - exact) <= max(last_place(result), abs(exact) * Decimal("1e-25"))
        assert abs(decimals(result) - Decimal(result.exact)) <= last_place(result) + abs(exact) * Decimal("1e-25")


@given(singles.filter(lambda value: value > 1e-6), singles)
def test_a_quotient_by_a_root_follows_from_the_printed_operands(var: float, x: float) -> None:
    root = by_hand.root(by_hand.stored(var))
    quotient = by_hand.over(by_hand.stored(x), root)
    assert abs(decimals(quotient) * decimals(root) - decimals(by_hand.stored(x))) <= last_place(
        quotient
    ) * 2 * decimals(root)
    assert quotient.exact == pytest.approx(x / math.sqrt(var), rel=1e-12, abs=1e-300)


def test_a_difference_shows_no_more_digits_than_its_operands_carry() -> None:
    # 1/3 and 1/3 + 1e-9 are printed alike: by hand their difference is 0, and 0 is printed
    close = by_hand.minus(by_hand.measured(1 / 3), by_hand.measured(1 / 3 + 1e-11))
    assert close.text == "0"
    assert by_hand.minus(by_hand.measured(2.5), by_hand.measured(0.5)).text == "2"


def test_what_is_no_number_stays_none() -> None:
    nan = by_hand.stored(math.nan)
    assert by_hand.plus(nan, by_hand.stored(1.0)).text == "NaN"
    assert by_hand.root(by_hand.stored(-1.0)).text == "NaN"
    assert by_hand.over(by_hand.stored(1.0), by_hand.stored(0.0)).text == "∞"
    assert by_hand.over(by_hand.stored(0.0), by_hand.stored(0.0)).text == "NaN"
