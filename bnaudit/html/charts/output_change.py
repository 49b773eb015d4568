"""How far the output moves: with other companions, alone, repeated, padded; in rounding steps of the output."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.html.charts.drawing import one_below_the_other
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


def output_change(measured: Measured | None, prefix: str) -> Picture | None:
    """One picture of all comparisons of outputs, None without any."""
    if measured is None:
        return None
    shifts = [(name, shift) for name, shift in _comparisons(measured) if shift is not None]
    if not shifts:
        return None
    marks = tuple(_mark(name, shift) for name, shift in shifts)
    moving = [mark.name for mark in marks if mark.standing is Standing.BEYOND]
    summary = f"Beyond noise: {', '.join(moving)}." if moving else "Nothing moves the output beyond noise."
    title = "How far the output moves"
    scale = logarithmic([mark.value for mark in marks], [NOISE, 1.0])
    return Picture(
        "output-change",
        title,
        "Each line is one comparison of the same samples in eval mode: the further right, the more the output differs, "
        "in rounding steps of its own scale (largest difference / (largest value × machine epsilon)); 0 is equal bit "
        "by bit.",
        one_below_the_other(f"{prefix}-output", f"{title}. {summary}", marks, scale, (NOISE, f"noise {NOISE:g}")),
        summary,
        legend(marks, _WORDS),
        Table(
            ("comparison", "rounding steps", "largest difference", "largest value", "decisions that flip"),
            tuple((name, _steps(s), s.difference, s.scale, f"{s.flips} of {s.decisions}") for name, s in shifts),
        ),
    )


def _comparisons(measured: Measured) -> Iterator[tuple[str, Shift | None]]:
    for swap in measured.of(Swap):
        yield "alone, without companions", swap.alone
        yield "with other companions", swap.other
        yield "the same in float64", swap.double
        yield "companions × 100", swap.scaled
    alone = any(swap.alone is not None for swap in measured.of(Swap))
    for size in measured.of(BatchSize):
        yield "in a batch of 1", None if alone else size.one
        yield "in a batch of 2", size.two
        yield "in a batch of 3", size.three
    for padding in measured.of(Padding):
        yield "longer companions", padding.shift
    for rows in measured.of(IdenticalRows):
        yield "equal rows of one batch", rows.shift
    for repeat in measured.of(Repeat):
        yield "the same batch again", repeat.in_a_row
    for production in measured.of(Production):
        yield "the framework's optimizations", production.shift
    for saved in measured.of(AsSaved):
        yield "in the mode it was saved in", saved.shift


def _mark(name: str, shift: Shift) -> Mark:
    flips = f", {shift.flips} of {shift.decisions} decisions flip" if shift.flips else ""
    words = "equal bit by bit" if shift.exact else f"{number(_steps(shift))} rounding steps{flips}"
    return Mark(name, _steps(shift), Standing.BEYOND if _steps(shift) > NOISE else Standing.WITHIN, words)


def _steps(shift: Shift) -> float:
    """0 for equal outputs; infinite where the shapes differ or only one is finite."""
    if shift.exact:
        return 0.0
    return math.inf if shift.shapes or not math.isfinite(shift.difference) else shift.epsilons
