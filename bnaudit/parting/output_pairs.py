"""Which outputs of two models are the same one, and how far apart they are row by row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from bnaudit.comparison import OutputPair
from bnaudit.parting.decisions import flipped
from bnaudit.parting.side import Ran
from bnaudit.records import replace
from bnaudit.session import Output, Trace
from bnaudit.shifts import BAND, epsilon, is_floating, shift, unpadded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

_MOST_ROWS = 16
_KEY = re.compile(r"\[['\"]?(.*?)['\"]?\]")
_VALUES_AT_ONCE = 1 << 22


class Together(NamedTuple):
    """One output of both, by its place among each side's outputs."""

    baseline: int
    subject: int


def paired(baseline: Ran, subject: Ran) -> tuple[tuple[Together, ...], tuple[str, ...]]:
    """Outputs by name, then by order and shape, then by values; and what a reader should know of that."""
    pairs = _by_name(baseline.outputs, subject.outputs)
    free_b = [i for i in range(len(baseline.outputs)) if i not in {pair.baseline for pair in pairs}]
    free_s = [i for i in range(len(subject.outputs)) if i not in {pair.subject for pair in pairs}]
    for first in list(free_b):
        fitting = [second for second in free_s if _one_shape(baseline, subject, first, second)]
        if fitting:
            nearest = _nearest(baseline, subject, first, fitting, free_b)
            pairs.append(Together(first, nearest))
            free_b.remove(first)
            free_s.remove(nearest)
    if len(free_b) == len(free_s):
        pairs += [Together(first, second) for first, second in zip(free_b, free_s, strict=True)]
        free_b, free_s = [], []
    said = [*_alone(baseline, free_b, "baseline"), *_alone(subject, free_s, "subject")]
    ordered = tuple(sorted(pairs))
    if [pair.subject for pair in ordered] != sorted(pair.subject for pair in ordered):
        said.append("the outputs of the two stand in another order and were paired by name or by values")
    return ordered, tuple(said)


def _by_name(baseline: Sequence[Output], subject: Sequence[Output]) -> list[Together]:
    names = {_plain(output.name): index for index, output in enumerate(subject)}
    found = [
        Together(index, names[_plain(output.name)])
        for index, output in enumerate(baseline)
        if _plain(output.name) in names and not _plain(output.name).isdigit()
    ]
    return found if len({pair.subject for pair in found}) == len(found) else []


def _plain(name: str) -> str:
    """`logits` for `['logits']`, the way in which modules and graphs name the same output."""
    keys = _KEY.findall(name)
    return ".".join(keys) if keys else name


def _one_shape(baseline: Ran, subject: Ran, first: int, second: int) -> bool:
    one, other = baseline.outputs[first].values, subject.outputs[second].values
    rows = int(baseline.with_rows[first] and subject.with_rows[second])
    return one.shape[rows:] == other.shape[rows:] and is_floating(baseline.outputs[first]) == is_floating(
        subject.outputs[second]
    )


def _nearest(baseline: Ran, subject: Ran, first: int, fitting: list[int], free: list[int]) -> int:
    """The next one in order, unless another is equal up to rounding and that one is not."""
    rivals = [index for index in free if _one_shape(baseline, subject, index, fitting[0])]
    if len(fitting) == 1 and len(rivals) == 1:
        return fitting[0]
    for second in fitting:
        pair = compared(baseline, subject, Together(first, second))
        if pair.shift.exact or pair.shift.difference <= pair.floor:
            return second
    return fitting[0]


def _alone(ran: Ran, free: list[int], side: str) -> Iterator[str]:
    for index in free:
        output = ran.outputs[index]
        shape = list(output.values.shape[int(ran.with_rows[index]) :])
        yield f"the output {output.name or 'of the model'} ({shape}) is in the {side} alone"


def compared(baseline: Ran, subject: Ran, pair: Together, measured: float | None = None) -> OutputPair:
    """The difference of one output against its floor.

    measured: rounding as it was measured, in the output's unit, in place of what is taken for it.
    """
    one, other = baseline.outputs[pair.baseline], subject.outputs[pair.subject]
    rows = baseline.with_rows[pair.baseline] and subject.with_rows[pair.subject]
    first, second = _rows(one, rows), _rows(other, rows)
    if rows:
        count = min(len(first), len(second))
        first, second = first[:count], second[:count]
    found = shift(
        _trace(one, first, baseline.dtype),
        _trace(other, second, subject.dtype),
        (0,),
        tuple((row, row) for row in range(min(len(first), len(second)))),
    )
    floor = BAND * epsilon(found.dtype) * found.scale if is_floating(one) and is_floating(other) else 0.0
    floor = floor if measured is None else measured
    apart = row_differences(first, second)
    worst = _worst(apart, floor) if rows and apart is not None else ()
    flips, decisions = flipped(one.name, other.name, first, second, apart, floor) if rows else (0, 0)
    return OutputPair(
        subject=other.name,
        baseline=one.name,
        shift=replace(found, output=other.name or one.name, flips=flips, decisions=decisions),
        floor=floor,
        rows=worst,
    )


def _rows(output: Output, rows: bool) -> Array:
    return output.values if rows else output.values[None]


def _trace(output: Output, values: Array, compute: str) -> Trace:
    return Trace(outputs=(replace(output, values=values),), compute_dtype=compute)


def row_differences(first: Array, second: Array) -> Array | None:
    """(rows,): largest |a − b| of each, infinite where one is finite and the other is not; None: other shapes."""
    common = unpadded(first, second)
    if common is None or not all(values.dtype.kind in "fciub" for values in common):
        return None
    rows = len(common[0])
    each = max(1, math.prod(common[0].shape[1:]))
    step = max(1, _VALUES_AT_ONCE // each)
    pieces = [_apart(*(values[at : at + step] for values in common)) for at in range(0, rows, step)]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _apart(first: Array, second: Array) -> Array:
    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    one, other = (values.astype(wide).reshape(len(values), -1) for values in (first, second))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    apart = np.where(np.isnan(apart), math.inf, apart)
    largest: Array = apart.max(axis=1) if apart.shape[1] else np.zeros(len(apart))
    return largest


def _worst(apart: Array, floor: float) -> tuple[int, ...]:
    order = np.argsort(-apart, kind="stable")[:_MOST_ROWS]
    return tuple(int(row) for row in order if apart[row] > floor)
