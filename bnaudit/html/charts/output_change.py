"""How far the output moves: with other companions, alone, repeated, padded; in rounding steps of the output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.html.charts.drawing import one_below_the_other
from bnaudit.html.charts.limits import OWN, Limits, limit_of
from bnaudit.html.charts.picture import Mark, Picture, Standing, Table, legend
from bnaudit.html.charts.scales import logarithmic
from bnaudit.measurement import (
    AsSaved,
    BatchSize,
    IdenticalRows,
    Measured,
    Padding,
    Production,
    Repeat,
    Shift,
    Swap,
)
from bnaudit.shift_wording import NOISE
from bnaudit.terminal.amounts import number

_WORDS = {
    Standing.WITHIN: "equal, or no more than kernels that sum in another order give",
    Standing.BEYOND: "more than kernels that sum in another order give",
}
_OTHER_WORDS = {
    Standing.WITHIN: "within its limit of the settings",
    Standing.BEYOND: "beyond its limit of the settings",
}


class _Comparison(NamedTuple):
    name: str
    shift: Shift
    limit: float
    """Of the rule that speaks of it, in rounding steps."""


def output_change(measured: Measured | None, prefix: str, limits: Limits = OWN) -> Picture | None:
    """One picture of all comparisons of outputs, None without any."""
    if measured is None:
        return None
    found = [
        _Comparison(name, shift, limit_of(limits, rule, "epsilons", NOISE))
        for name, rule, shift in _comparisons(measured)
        if shift is not None
    ]
    if not found:
        return None
    own = all(each.limit == NOISE for each in found)
    marks = tuple(_mark(each) for each in found)
    moving = [mark.name for mark in marks if mark.standing is Standing.BEYOND]
    limit = "noise" if own else "the limit"
    summary = f"Beyond {limit}: {', '.join(moving)}." if moving else f"Nothing moves the output beyond {limit}."
    title = "How far the output moves"
    scale = logarithmic([mark.value for mark in marks], [*(each.limit for each in found), 1.0])
    return Picture(
        "output-change",
        title,
        "Each line is one comparison of the same samples in eval mode: the further right, the more the output differs, "
        "in rounding steps of its own scale (largest difference / (largest value × machine epsilon)); 0 is equal bit "
        "by bit.",
        one_below_the_other(
            f"{prefix}-output",
            f"{title}. {summary}",
            marks,
            scale,
            [(each.limit, f"{'noise' if own else 'limit'} {each.limit:g}") for each in found],
        ),
        summary,
        legend(marks, _WORDS if own else _OTHER_WORDS),
        Table(
            ("comparison", "rounding steps", "limit", "largest difference", "largest value", "decisions that flip"),
            tuple(_row(each) for each in found),
        ),
    )


def _row(each: _Comparison) -> tuple[str | float, ...]:
    shift = each.shift
    decisions = f"{shift.flips} of {shift.decisions}"
    return each.name, _steps(shift), each.limit, shift.difference, shift.scale, decisions


def _comparisons(measured: Measured) -> Iterator[tuple[str, str, Shift | None]]:
    """What is compared, the rule that has its limit, and how far apart it is."""
    for swap in measured.of(Swap):
        yield "alone, without companions", "BN301", swap.alone
        yield "with other companions", "BN301", swap.other
        yield "the same in float64", "BN301", swap.double
        yield "companions × 100", "BN301", swap.scaled
    alone = any(swap.alone is not None for swap in measured.of(Swap))
    for size in measured.of(BatchSize):
        yield "in a batch of 1", "BN303", None if alone else size.one
        yield "in a batch of 2", "BN303", size.two
        yield "in a batch of 3", "BN303", size.three
    for padding in measured.of(Padding):
        yield "longer companions", "BN304", padding.shift
    for rows in measured.of(IdenticalRows):
        yield "equal rows of one batch", "BN305", rows.shift
    for repeat in measured.of(Repeat):
        random = repeat.restored is not None and not repeat.restored.exact
        yield "the same batch again", "BN302" if random else "BN306", repeat.in_a_row
        yield "the same batch after another one", "BN306", repeat.after_others
    for production in measured.of(Production):
        yield "the framework's optimizations", "BN307", production.shift
    for saved in measured.of(AsSaved):
        yield "in the mode it was saved in", "", saved.shift


def _mark(each: _Comparison) -> Mark:
    shift = each.shift
    flips = f", {shift.flips} of {shift.decisions} decisions flip" if shift.flips else ""
    words = "equal bit by bit" if shift.exact else f"{number(_steps(shift))} rounding steps{flips}"
    return Mark(each.name, _steps(shift), Standing.BEYOND if _steps(shift) > each.limit else Standing.WITHIN, words)


def _steps(shift: Shift) -> float:
    """0 for equal outputs; infinite where the shapes differ or only one is finite."""
    if shift.exact:
        return 0.0
    return math.inf if shift.shapes or not math.isfinite(shift.difference) else shift.epsilons
