"""Numbers rounded so that a person who goes on from what is printed gets what is printed next."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import NamedTuple

_CONTEXT = Context(prec=40)
STORED_DIGITS = 9
"""Significant digits that tell every float32 from its neighbours."""
DERIVED_DIGITS = 8
"""Of a number that is computed, at most; fewer where the printed operands do not carry as many."""
_LARGEST_FIXED, _SMALLEST_FIXED = 9, -5
"""Decimal exponents between which numbers are written without an exponent."""


class Number(NamedTuple):
    """A value in double precision, and the decimal that stands for it on the page (None: it is not finite)."""

    exact: float
    printed: Decimal | None

    @property
    def text(self) -> str:
        """As it is printed, with a real minus sign."""
        return written(self.exact if self.printed is None else self.printed)


def stored(value: float, dtype: str = "float32") -> Number:
    """A number as it is stored: the fewest digits that give it back in its own precision."""
    if not math.isfinite(value):
        return Number(value, None)
    if dtype == "float64":
        return Number(value, Decimal(repr(value)))
    texts = (f"{value:.{digits}g}" for digits in range(1, STORED_DIGITS + 1))
    shortest = next((text for text in texts if _single(float(text)) == value), f"{value:.{STORED_DIGITS}g}")
    return Number(value, Decimal(f"{Decimal(shortest):f}"))


def measured(value: float) -> Number:
    """A number that was measured, to nine significant digits."""
    return Number(value, Decimal(f"{value:.{STORED_DIGITS}g}") if math.isfinite(value) else None)


def derived(exact: float, by_hand: Decimal | None) -> Number:
    """A computed number, to the most digits in which double precision and the arithmetic on the page agree."""
    if by_hand is None or not math.isfinite(exact) or not by_hand.is_finite():
        return Number(exact, None)
    precise = Decimal(exact)
    largest = max(abs(precise), abs(by_hand))
    if not largest:
        return Number(exact, Decimal(0))
    place = largest.adjusted() - DERIVED_DIGITS + 1
    while True:
        one, other = (_rounded(value, place) for value in (precise, by_hand))
        if one == other:
            return Number(exact, one)
        place += 1


def minus(one: Number, other: Number) -> Number:
    """one − other."""
    return derived(one.exact - other.exact, _with(_CONTEXT.subtract, one, other))


def plus(one: Number, other: Number) -> Number:
    """one + other."""
    return derived(one.exact + other.exact, _with(_CONTEXT.add, one, other))


def times(one: Number, other: Number) -> Number:
    """one · other."""
    return derived(one.exact * other.exact, _with(_CONTEXT.multiply, one, other))


def sum_of(*products: tuple[int, Number, Number]) -> Number:
    """The sum of sign · one · other, in one go: nothing is rounded between."""
    exact = sum(sign * one.exact * other.exact for sign, one, other in products)
    by_hand: Decimal | None = Decimal(0)
    for sign, one, other in products:
        product = _with(_CONTEXT.multiply, one, other)
        by_hand = None if product is None or by_hand is None else _CONTEXT.fma(sign, product, by_hand)
    return derived(exact, by_hand)


def over(one: Number, other: Number) -> Number:
    """one ÷ other; a zero below gives NaN or an infinity, as floating numbers do."""
    if other.exact == 0.0:
        signed = math.copysign(1.0, other.exact)
        return Number(math.nan if not one.exact or math.isnan(one.exact) else one.exact * signed * math.inf, None)
    by_hand = None if not other.printed else _with(_CONTEXT.divide, one, other)
    return derived(one.exact / other.exact, by_hand)


def root(number: Number) -> Number:
    """The square root; NaN below zero."""
    if math.isnan(number.exact) or number.exact < 0:
        return Number(math.nan, None)
    by_hand = None if number.printed is None or number.printed < 0 else _CONTEXT.sqrt(number.printed)
    return derived(math.sqrt(number.exact), by_hand)


def written(value: float | Decimal) -> str:
    """A number for a person: no trailing zeros, an exponent only where it is far from 1, a real minus sign."""
    decimal = value if isinstance(value, Decimal) else (Decimal(repr(value)) if math.isfinite(value) else None)
    if decimal is None:
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if not decimal:
        return "0"
    rounded = int(decimal.as_tuple().exponent) > 0  # zeros at its end would pass for digits
    if _SMALLEST_FIXED <= decimal.adjusted() < _LARGEST_FIXED and not rounded:
        text = f"{decimal:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        digits, _, exponent = f"{decimal.normalize():e}".partition("e")
        text = f"{digits}e{int(exponent)}"
    return text.replace("-", "−")


def _with(operation: object, one: Number, other: Number) -> Decimal | None:
    if one.printed is None or other.printed is None:
        return None
    result = operation(one.printed, other.printed)  # type: ignore[operator]
    assert isinstance(result, Decimal)
    return result


def _rounded(value: Decimal, place: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(place), context=Context(prec=2000)) or Decimal(0)


def _single(value: float) -> float:
    """The nearest float32; an infinity beyond its range."""
    import struct

    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
