"""How a difference reads."""

from __future__ import annotations

import pytest
from measured import EXACT, FLOAT32_EPS, LARGE, NOISE, shift

from bnaudit.measurement import Shift
from bnaudit.shift_wording import NOISE as STEPS
from bnaudit.shift_wording import amount, beyond, flips, limit, value

INFINITE = shift(float("inf"), epsilons=float("inf"))


def test_64_rounding_steps_are_the_border() -> None:
    at = 64 * 2.0 * FLOAT32_EPS
    assert not beyond(shift(at), STEPS)
    assert beyond(shift(at * 1.001), STEPS)
    assert limit(LARGE, STEPS) == pytest.approx(at, rel=0.02)


@pytest.mark.parametrize("found", [EXACT, NOISE, None])
def test_exact_noise_and_nothing_are_not_beyond(found: object) -> None:
    assert not beyond(found, STEPS)


def test_sizes_have_three_digits_and_a_share() -> None:
    assert amount(shift(0.83333, scale=2.5)) == "by 0.833 (0.33 of the largest output)"
    assert value(shift(0.83333)) == 0.833


def test_what_is_no_number_says_so() -> None:
    assert "NaN or infinity" in amount(INFINITE)
    assert beyond(INFINITE, STEPS)
    assert (value(INFINITE), limit(INFINITE, STEPS)) == (float("inf"), None)


@pytest.mark.parametrize(("count", "words"), [(0, ""), (1, ", 1 of 4 decisions flips"), (3, ", 3 of 4 decisions flip")])
def test_flips_are_counted(count: int, words: str) -> None:
    assert flips(shift(0.5, flips=count, decisions=4)) == words


def test_unlike_shapes_are_told() -> None:
    assert amount(Shift(exact=False, difference=float("inf"), shapes="[16] and [1]")) == "in shape ([16] and [1])"
