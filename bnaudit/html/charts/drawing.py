"""Draws marks along an axis of layers, or one below the other, on any scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bnaudit.html.charts.picture import SHAPES, Mark, Standing, shown
from bnaudit.html.charts.scales import Scale
from bnaudit.html.charts.svg import COLORS, Drawn, inline, style

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 560
"""Units of the picture; a page shows about as many pixels."""
_NAMED = 16
"""Up to as many layers are named below the axis; more are counted, and named when they are pointed at."""
_LONGEST = 22
_SLANTED = 3.9
"""Height of one character of a slanted name."""
_MANY = 2000
"""Above, only the marks that stand out have a tooltip: the table has them all."""
_FILLS = {Standing.WITHIN: "accent", Standing.BEYOND: "failed", Standing.OPEN: "open", Standing.UNUSED: "muted"}


def along_layers(
    key: str,
    label: str,
    marks: Sequence[Mark],
    scale: Scale,
    *,
    order: str,
    limit: tuple[float, str] | None = None,
    bars: bool = False,
) -> Markup:
    """Marks from left to right, `order` says in which; `limit` is drawn across with its words, `bars` stand on 0."""
    named = len(marks) <= _NAMED
    with style(key):
        names = [shown(mark.name, _LONGEST) for mark in marks]
        bottom = 26 + _SLANTED * max(map(len, names)) if named else 44
        figure, axes = _figure(height=186 + bottom, bottom=bottom, left=62)
        _frame(axes, scale)
        places = list(range(1, len(marks) + 1))
        axes.set_xlim(0.4 if len(marks) > 1 else 0, len(marks) + (0.6 if len(marks) > 1 else 1))
        if limit is not None:
            _limit(axes, scale, *limit)
        _boundaries(axes, marks)
        _ranges(axes, scale, marks, bars)
        titles = _points(axes, marks, [(x, scale.place(mark.value)) for x, mark in zip(places, marks, strict=True)])
        _below(axes, marks, order if not named else "")
        return inline(Drawn(figure, names, titles), key, label)


def one_below_the_other(
    key: str, label: str, marks: Sequence[Mark], scale: Scale, limits: Sequence[tuple[float, str]]
) -> Markup:
    """Marks with their names at the left, each with its limit and the words for it; the scale runs to the right."""
    with style(key):
        figure, axes = _figure(height=66 + 24 * len(marks), bottom=32, left=190, top=24)
        _frame(axes, scale, across=True)
        axes.set_ylim(len(marks) - 0.4, -0.6)
        for (limit, words), first, last in _runs(limits):
            at = scale.place(limit)
            axes.plot([at, at], [first - 0.6, last + 0.6], color=COLORS["failed"], lw=1.2, dashes=(5, 3), clip_on=False)
            if first:
                axes.annotate(words, (at, first), (4, 0), textcoords="offset points", color=COLORS["failed"])
            else:
                axes.text(at, -0.75, words, ha="center", va="bottom", color=COLORS["failed"])
        axes.set_yticks(range(len(marks)), [f"@{position}@" for position in range(len(marks))], ha="right")
        start = scale.ends[0]
        for position, mark in enumerate(marks):
            axes.plot([start, scale.place(mark.value)], [position] * 2, color=COLORS["rule"], lw=1.5, clip_on=False)
        titles = _points(axes, marks, [(scale.place(mark.value), y) for y, mark in enumerate(marks)])
        return inline(Drawn(figure, [mark.name for mark in marks], titles), key, label)


def _runs(limits: Sequence[tuple[float, str]]) -> Iterator[tuple[tuple[float, str], int, int]]:
    """Each limit that is one with the first and the last of the marks in a row that have it."""
    for limit, places in groupby(range(len(limits)), key=lambda place: limits[place]):
        row = list(places)
        if math.isfinite(limit[0]):
            yield limit, row[0], row[-1]


def _figure(height: float, bottom: float, left: float, top: float = 14) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    FigureCanvasSVG(figure)
    right = 20
    box = (left / _WIDTH, bottom / height, (_WIDTH - left - right) / _WIDTH, (height - bottom - top) / height)
    axes = figure.add_axes(box)
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, colors=COLORS["muted"], pad=5)
    return figure, axes


def _frame(axes: Axes, scale: Scale, across: bool = False) -> None:
    """Lines at round numbers; dotted where a lane begins that is not part of the range."""
    ticks = scale.ticks
    places, labels = [tick.at for tick in ticks], [tick.label for tick in ticks]
    if across:
        axes.set_xlim(*scale.ends)
        axes.set_xticks(places, labels)
    else:
        axes.set_ylim(*scale.ends)
        axes.set_yticks(places, labels)
    line = axes.axvline if across else axes.axhline
    for tick in ticks:
        style: dict[str, Any] = {"dashes": (1, 3)} if tick.lane else {}
        line(tick.at, color=COLORS["rule"], lw=1, zorder=0, **style)


def _limit(axes: Axes, scale: Scale, value: float, words: str) -> None:
    at = scale.place(value)
    axes.axhline(at, color=COLORS["failed"], lw=1.2, dashes=(5, 3), zorder=1)
    words_style: Any = {"ha": "right", "va": "bottom", "color": COLORS["failed"]}
    axes.annotate(
        words, (1, at), (-2, 3), xycoords=axes.get_yaxis_transform(), textcoords="offset points", **words_style
    )


def _boundaries(axes: Axes, marks: Sequence[Mark]) -> None:
    """A line between the layers of one part of the artifact and the next."""
    for position in range(1, len(marks)):
        if marks[position].part != marks[position - 1].part:
            axes.axvline(position + 0.5, color=COLORS["muted"], lw=1, dashes=(2, 2), zorder=0)


def _ranges(axes: Axes, scale: Scale, marks: Sequence[Mark], bars: bool) -> None:
    """Ranges, or bars from 0, as one path each; the error as short lines."""
    spans = [
        (x, mark.low, mark.high) for x, mark in enumerate(marks, 1) if mark.low is not None and mark.high is not None
    ]
    if bars:
        spans = [(x, 0.0, mark.value) for x, mark in enumerate(marks, 1)]
    if spans:
        width = max(1.2, min(6.0, 240 / len(marks)))
        xs, ys = _broken((x, scale.place(low), x, scale.place(high)) for x, low, high in spans)
        axes.plot(xs, ys, color=COLORS["muted" if not bars else "accent"], lw=width, solid_capstyle="butt", alpha=0.45)
    errors = [(x, mark.error) for x, mark in enumerate(marks, 1) if mark.error is not None]
    if errors:
        xs, ys = _broken((x - 0.3, scale.place(error), x + 0.3, scale.place(error)) for x, error in errors)
        axes.plot(xs, ys, color=COLORS["muted"], lw=1.6, solid_capstyle="butt")


def _broken(segments: Iterable[tuple[float, float, float, float]]) -> tuple[list[float], list[float]]:
    """Many segments as one line with gaps."""
    xs: list[float] = []
    ys: list[float] = []
    for x0, y0, x1, y1 in segments:
        xs += [x0, x1, math.nan]
        ys += [y0, y1, math.nan]
    return xs, ys


def _points(axes: Axes, marks: Sequence[Mark], places: Sequence[tuple[float, float]]) -> dict[str, list[str]]:
    """The marks, those that stand out on top, and the tooltips of each kind."""
    size = 7.0 if len(marks) <= 60 else 5.0 if len(marks) <= 400 else 3.0
    titles: dict[str, list[str]] = {}
    for standing in (Standing.UNUSED, Standing.WITHIN, Standing.OPEN, Standing.BEYOND):
        chosen = [(mark, place) for mark, place in zip(marks, places, strict=True) if mark.standing is standing]
        if not chosen:
            continue
        color = COLORS[_FILLS[standing]]
        hollow = standing in (Standing.OPEN, Standing.UNUSED)
        axes.plot(
            [x for _, (x, _) in chosen],
            [y for _, (_, y) in chosen],
            linestyle="none",
            marker=SHAPES[standing],
            ms=size if standing is Standing.WITHIN else size + 3,
            mfc=COLORS["surface"] if hollow else color,
            mec=color,
            mew=1.5 if hollow else 0.5,
            clip_on=False,
            zorder=3,
            gid=standing.value,
        )
        if len(marks) <= _MANY or standing is not Standing.WITHIN:
            titles[standing.value] = [f"{shown(mark.name)}: {mark.words}" for mark, _ in chosen]
    return titles


def _below(axes: Axes, marks: Sequence[Mark], order: str) -> None:
    if not order:
        labels = [f"@{position}@" for position in range(len(marks))]
        axes.set_xticks(range(1, len(marks) + 1), labels, rotation=38, rotation_mode="anchor", ha="right", va="center")
        return
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5) if len(marks) / s <= 10)
    places = sorted({1, *range(step, len(marks) + 1, step)})
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.set_xlabel(f"layer, {order}", color=COLORS["muted"], labelpad=4)
