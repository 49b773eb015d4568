"""What a file stores, along its layers: the share of initial statistics, the counters, the spread of the gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bnaudit.arithmetic import PYTORCH_EPS
from bnaudit.html.charts.drawing import along_layers
from bnaudit.html.charts.limits import OWN, Limits, drawn, limit_of
from bnaudit.html.charts.picture import Mark, Picture, Plain, Standing, Table, legend
from bnaudit.html.charts.scales import logarithmic
from bnaudit.html.layer_rows import LayerRow
from bnaudit.terminal.amounts import number, plural, share

ORDER = "in the artifact's order"
INITIAL_LIMIT = 0.05
"""BN105's default."""
_FLOOR = 1e-4
"""Shares below this (0.01 %) are one and the same to a reader."""
_RESIDUAL_RULES = ("BN103", "BN104", "BN105")
_COUNTER_RULES = ("BN102", "BN111", "BN112", "BN113")
_GAIN_RULES = ("BN106", "BN107", "BN108", "BN109", "BN115", "BN116")
_FOUND = {Standing.WITHIN: "nothing found", Standing.BEYOND: "with a finding", Standing.OPEN: "not finite or negative"}

_MEDIANS = {
    Standing.WITHIN: "median of a layer",
    Standing.BEYOND: "median of a layer with a finding",
    Standing.OPEN: "no channel is finite",
}


class Gain(NamedTuple):
    """|weight| / √(variance + epsilon) over the channels of one layer."""

    low: float
    median: float
    high: float
    broken: int
    """Channels where it is not finite."""
    channels: int
    eps: float
    assumed: bool
    """Epsilon is not in the artifact: PyTorch's default was taken."""


def stored_pictures(rows: Sequence[LayerRow], prefix: str, limits: Limits = OWN) -> Iterable[Picture | Plain]:
    """The pictures of what is stored, and in words what all layers have alike."""
    limit = limit_of(limits, "BN105", "share", INITIAL_LIMIT)
    for found in (_residual(rows, prefix, limit), _counters(rows, prefix), _gains(rows, prefix)):
        if found is not None:
            yield found


def _residual(rows: Sequence[LayerRow], prefix: str, limit: float) -> Picture | Plain | None:
    shares = [(row, row.residual) for row in rows if row.residual is not None]
    title = "Initial statistics left"
    if not shares:
        return None
    assumed = any(row.assumed for row, _ in shares)
    taken = " Where the file does not say the momentum, 0.1 is taken." if assumed else ""
    if max(value for _, value in shares) < min(_FLOOR, limit):
        return Plain(title, f"below 0.01 % in {_every(len(shares))} with a count of batches.{taken}")
    marks = tuple(
        Mark(row.name, value * 100, _standing(row, _RESIDUAL_RULES), f"{share(value)} is initial", row.part)
        for row, value in shares
    )
    above = sum(value >= limit for _, value in shares)
    summary = f"Largest share {share(max(value for _, value in shares))}; {above} of {plural(len(shares), 'layer')} "
    summary += f"at or above {limit * 100:g} %."
    scale = logarithmic([limit * 100, *(mark.value for mark in marks)], floor=_FLOOR * 100, unit=" %")
    return Picture(
        "initial",
        title,
        "The share of the initial mean 0 and variance 1 that is still in a layer's running statistics, (1 − momentum) "
        f"to the power of its counter; less is better.{taken}",
        along_layers(
            f"{prefix}-initial",
            f"{title}. {summary}",
            marks,
            scale,
            order=ORDER,
            limit=drawn(limit * 100, f"limit {limit * 100:g} %"),
        ),
        summary,
        legend(marks, _FOUND),
        _table(rows, ("initial left",), lambda row: None if row.residual is None else (row.residual,)),
    )


def _counters(rows: Sequence[LayerRow], prefix: str) -> Picture | Plain | None:
    counted = [(row, row.counter) for row in rows if row.counter is not None]
    title = "Batches counted"
    if not counted:
        return None
    values = {value for _, value in counted}
    if len(values) == 1:
        return Plain(title, f"num_batches_tracked is {number(values.pop())} in {_all(counted, rows)}.")
    marks = tuple(
        Mark(row.name, value, _standing(row, _COUNTER_RULES, value), f"{number(value)} batches", row.part)
        for row, value in counted
    )
    finite = [value for value in values if math.isfinite(value)]
    summary = f"{plural(len(counted), 'counter')}, {len(values)} different values"
    summary += f" from {number(min(finite))} to {number(max(finite))}." if finite else "."
    return Picture(
        "counters",
        title,
        "num_batches_tracked of each layer: how many training batches its running statistics saw; layers of one model "
        "that always run together have the same number.",
        along_layers(f"{prefix}-counters", f"{title}. {summary}", marks, logarithmic(values), order=ORDER),
        summary,
        legend(marks, _FOUND),
        _table(rows, ("batches",), lambda row: None if row.counter is None else (row.counter,)),
    )


def _gains(rows: Sequence[LayerRow], prefix: str) -> Picture | None:
    found = [(row, gained) for row in rows if (gained := gain(row)) is not None]
    if not found:
        return None
    marks = tuple(
        Mark(
            row.name,
            each.median,
            _standing(row, _GAIN_RULES, each.median),
            _gain_words(each),
            row.part,
            each.low if math.isfinite(each.low) else None,
            each.high if math.isfinite(each.high) else None,
        )
        for row, each in found
    )
    ends = [end for _, each in found for end in (each.low, each.median, each.high)]
    finite = [end for end in ends if math.isfinite(end)]
    title = "Spread of the gains"
    summary = (
        f"{plural(len(found), 'layer')}; gains from {number(min(finite))} to {number(max(finite))}." if finite else ""
    )
    broken = sum(each.broken > 0 for _, each in found)
    summary += f" Channels that are not finite in {plural(broken, 'layer')}." if broken else ""
    eps = " Where the file does not say epsilon, 1e-5 is taken." if any(each.assumed for _, each in found) else ""
    gains = {id(row): each for row, each in found}
    return Picture(
        "gains",
        title,
        "What eval mode multiplies with, |weight| / √(running variance + epsilon): the mark is the median over a "
        f"layer's channels, the line runs from the smallest to the largest.{eps}",
        along_layers(f"{prefix}-gains", f"{title}. {summary}", marks, logarithmic(ends), order=ORDER),
        summary,
        legend(marks, _MEDIANS),
        _table(
            rows,
            ("smallest", "median", "largest", "not finite"),
            lambda row: tuple(gains[id(row)][:4]) if id(row) in gains else None,
        ),
    )


def gain(row: LayerRow) -> Gain | None:
    """The gains of a layer; None without running variance. A weight that is not there is 1."""
    import numpy as np

    var, gamma = row.layer.var, row.layer.gamma
    if var is None or not var.size or (gamma is not None and gamma.shape != var.shape):
        return None
    eps = PYTORCH_EPS if row.layer.eps is None else row.layer.eps
    with np.errstate(all="ignore"):
        gains = (np.ones_like(var) if gamma is None else np.abs(gamma)) / np.sqrt(var + eps)
    kept = gains[np.isfinite(gains)]
    low, median, high = (float(f(kept)) for f in (np.min, np.median, np.max)) if kept.size else (math.nan,) * 3
    return Gain(low, median, high, int(gains.size - kept.size), int(gains.size), eps, row.layer.eps is None)


def _gain_words(each: Gain) -> str:
    broken = f", {each.broken} of {each.channels} channels not finite" if each.broken else ""
    return f"{number(each.low)} to {number(each.high)}, median {number(each.median)}{broken}"


def _standing(row: LayerRow, rules: Sequence[str], value: float = 0.0) -> Standing:
    if any(rule in rules for rule in row.rules):
        return Standing.BEYOND
    return Standing.WITHIN if math.isfinite(value) and value >= 0 else Standing.OPEN


def _all(counted: Sequence[object], rows: Sequence[LayerRow]) -> str:
    return _every(len(rows)) if len(counted) == len(rows) else f"{len(counted)} of {len(rows)} layers"


def _every(number: int) -> str:
    return "the one layer" if number == 1 else f"all {number} layers"


def _table(
    rows: Sequence[LayerRow], head: tuple[str, ...], values: Callable[[LayerRow], tuple[float, ...] | None]
) -> Table:
    parts = len({row.part for row in rows}) > 1
    kept = [(row, found) for row in rows if (found := values(row)) is not None]
    return Table(
        (*(("part",) if parts else ()), "layer", *head),
        tuple(
            (*((row.part or "(the file itself)",) if parts else ()), row.name or "(root)", *found)
            for row, found in kept
        ),
    )
