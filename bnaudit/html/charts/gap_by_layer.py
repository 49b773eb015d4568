"""The train–eval gap, layer by layer: how far each layer's own normalized output moves when it goes to eval mode.

A layer in training mode gives z, of mean 0 and variance 1. With its stored statistics it gives δ + ρ·z, where δ is the
mean's shift in stored standard deviations and ρ² the ratio of the variances, so that the mean square of the difference
is δ² + (ρ − 1)². What sampling explains is taken off: δ² − error², and as much of the squared logarithm of the ratio.
Whichever way the variance is off, ρ is taken above 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bnaudit.gap_limits import StatisticsLimits, moved, used_in_eval
from bnaudit.html.charts.drawing import along_layers
from bnaudit.html.charts.limits import OWN, Limits, limit_of, statistics_limits
from bnaudit.html.charts.picture import Mark, Picture, Plain, Standing, Table, legend, named, shown
from bnaudit.html.charts.received_statistics import ORDER
from bnaudit.html.charts.scales import linear
from bnaudit.measurement import Gap, LayerStatistics, Measured
from bnaudit.terminal.amounts import number

_LARGEST_EXPONENT = 50.0
_LEAST_HEIGHT = 0.25
"""Standard deviations: what is far below a limit is not drawn to look large."""
_WORDS = {
    Standing.WITHIN: "its statistics are within their limits",
    Standing.BEYOND: "its statistics are off",
    Standing.OPEN: "too few samples to tell",
}
TITLE = "The train–eval gap by layer"


class Moving(NamedTuple):
    """Squares of how far one layer's normalized output moves, less what sampling explains."""

    by_mean: float
    by_variance: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.by_mean + self.by_variance

    @property
    def is_finite(self) -> bool:
        """Whether it can be set against others."""
        return math.isfinite(self.total)


def gap_by_layer(measured: Measured | None, prefix: str, limits: Limits = OWN) -> Picture | Plain | None:
    """The picture; in words where no layer moves more than sampling explains; None where no gap was measured."""
    if measured is None or not measured.of(Gap):
        return None
    layers = sorted(used_in_eval(measured), key=lambda each: each.position)
    if not layers:
        return None
    said = gap_words(measured.of(Gap)[-1], limit_of(limits, "BN403", "max_gap", math.inf))
    moving = [moves(each) for each in layers]
    total = sum(each.total for each in moving)
    if not math.isfinite(total):
        endless = [shown(each.layer) for each, part in zip(layers, moving, strict=True) if not part.is_finite]
        return Plain(TITLE, f"{said} What {', '.join(endless[:4])} receives is not finite.")
    if not total:
        return Plain(TITLE, f"{said} No layer's statistics are further off than sampling explains.")
    judged_by = statistics_limits(limits)
    marks = tuple(
        Mark(each.layer, math.sqrt(part.total), _standing(each, judged_by), _words(part, total))
        for each, part in zip(layers, moving, strict=True)
    )
    rows = tuple(_row(each, part, total) for each, part in zip(layers, moving, strict=True))
    return _picture(prefix, marks, f"{said} {_summary(marks, total)}", rows)


def _summary(marks: tuple[Mark, ...], total: float) -> str:
    most = max(marks, key=lambda mark: mark.value)
    share = f"{most.value**2 / total * 100:.0f} % of the sum of squares"
    off = named(marks, Standing.BEYOND)
    judged = f"Off: {off}." if off else "No layer is off beyond its limits."
    return f"Most: {shown(most.name)}, {number(most.value)} sd, {share}. {judged}"


def _picture(prefix: str, marks: tuple[Mark, ...], summary: str, rows: tuple[tuple[str | float, ...], ...]) -> Picture:
    largest = max(mark.value for mark in marks)
    return Picture(
        "gap-by-layer",
        TITLE,
        "Each bar is how far a layer's own normalized output moves when it goes from training to eval mode (root mean "
        "square, in standard deviations, each layer by itself, less what sampling explains); it tells where to look "
        "first, not how the shifts add up at the output.",
        along_layers(
            f"{prefix}-gap",
            f"{TITLE}. {summary}",
            marks,
            linear(max(_LEAST_HEIGHT, largest), " sd"),
            order=ORDER,
            bars=True,
        ),
        summary,
        legend(marks, _WORDS),
        Table(
            ("position", "layer", "moves (sd)", "by the mean", "by the variance", "share of squares"),
            rows,
        ),
    )


def _row(each: LayerStatistics, part: Moving, total: float) -> tuple[str | float, ...]:
    roots = (math.sqrt(square) for square in (part.total, part.by_mean, part.by_variance))
    return each.position + 1, each.layer or "(root)", *roots, f"{part.total / total * 100:.1f} %"


def moves(each: LayerStatistics) -> Moving:
    """How far the layer's normalized output moves, see the module."""
    mean = max(0.0, each.mean_shift**2 - each.mean_error**2)
    log_square = max(0.0, each.log_variance**2 - (each.log_variance_error or 0.0) ** 2)
    deviation = math.exp(min(math.sqrt(log_square) / 2, _LARGEST_EXPONENT))
    return Moving(mean, (deviation - 1) ** 2)


def gap_words(gap: Gap, allowed: float = math.inf) -> str:
    """The gap of the outputs in a sentence, with the largest that is allowed where there is one."""
    against = "more than" if gap.systematic > gap.noise else "no more than"
    flips = f", {gap.flips} of {gap.decisions} decisions flip" if gap.flips else ""
    limit = f"; the limit is {number(allowed)}" if math.isfinite(allowed) else ""
    return (
        f"Training and eval mode differ by {number(gap.systematic)} of the outputs' spread, {against} the "
        f"{number(gap.noise)} that companions alone explain{flips}{limit}."
    )


def _words(part: Moving, total: float) -> str:
    share = f"{number(math.sqrt(part.total))} sd, {part.total / total * 100:.1f} % of the sum of squares"
    return (
        f"{share}; {number(math.sqrt(part.by_mean))} by the mean, {number(math.sqrt(part.by_variance))} by the variance"
    )


def _standing(each: LayerStatistics, limits: StatisticsLimits) -> Standing:
    judged = moved(each, limits)
    return Standing.BEYOND if judged.proved else Standing.OPEN if judged.open else Standing.WITHIN
