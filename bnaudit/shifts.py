"""How far apart the outputs of two runs are, in units of what rounding alone can do.

Kernels that sum in another order differ by a few epsilons of the output's scale (2e-7 to 4e-7 in float32, up to 5e-4 in
float16 and 8e-3 in bfloat16 were seen): within 64 epsilons a difference proves nothing, beyond it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bnaudit.measurement import Shift
from bnaudit.session import Batch, Output, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

BAND = 64.0
"""Epsilons of the output's dtype × its scale within which a difference may be kernel noise."""
_EPSILONS = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""Distance from 1 to the next number; of the float8 formats below."""
_EIGHT_BIT = {"e4m3": 2.0**-3, "e5m2": 2.0**-2, "e3m4": 2.0**-4, "e8m0": 1.0}

Axes: TypeAlias = tuple["int | None", ...]
"""Of every output the axis along which the samples stand; None: it has none."""
Pairs: TypeAlias = Sequence[tuple[int, int]]
"""Rows of the first run and rows of the second that hold the same sample."""


class Band(Enum):
    """What the size of a difference says."""

    EXACT = "equal bit by bit"
    NOISE = "small enough to be kernel noise, and no proof that it is"
    LEAK = "larger than kernel noise"


def band(shift: Shift, limit: float = BAND) -> Band:
    """The band that a difference lies in."""
    if shift.exact:
        return Band.EXACT
    return Band.NOISE if shift.epsilons <= limit else Band.LEAK


def epsilon(dtype: str) -> float:
    """Rounding step at 1 of a floating dtype, by name; float32's for a name that is not known.

    TensorFloat-32 is not told apart from float32: tensors that passed through it carry the same dtype.
    """
    if dtype.startswith("float8"):
        return next((step for name, step in _EIGHT_BIT.items() if name in dtype), 2.0**-2)
    return _EPSILONS.get(dtype, _EPSILONS["float32"])


def is_floating(output: Output) -> bool:
    """Whether its values are real or complex numbers rather than integers or truth values."""
    return _may_be_nan(output.values)


def row_axes(trace: Trace, batch: Batch, other: Trace | None = None, other_size: int = 0) -> Axes:
    """The batch axis of every output: the dimension equal to the batch size, axis 0 first, then the inputs' axis.

    `other`, a run at another batch size, confirms it where it is there: an axis whose length does not follow the
    batch size holds no samples. An output that is there at one of the two sizes only is no output of samples either
    (a list of finds, which may be as long as the batch by chance).
    """
    if other is None or other_size == batch.size:
        return tuple(_row_axis(output, batch, None, None) for output in trace.outputs)
    if len(other.outputs) != len(trace.outputs):
        named = {output.name: output for output in other.outputs}
        return tuple(
            _row_axis(output, batch, named[output.name], other_size) if output.name in named else None
            for output in trace.outputs
        )
    pairs = zip(trace.outputs, other.outputs, strict=True)
    return tuple(_row_axis(output, batch, single, other_size) for output, single in pairs)


def _row_axis(output: Output, batch: Batch, other: Output | None, size: int | None) -> int | None:
    shape = output.values.shape
    order = dict.fromkeys((0, batch.axis, *range(len(shape))))
    fitting = [axis for axis in order if axis < len(shape) and shape[axis] == batch.size]
    if other is not None and size is not None and other.values.ndim == len(shape):
        fitting = [axis for axis in fitting if other.values.shape[axis] == size]
    return fitting[0] if fitting else None


def shift(first: Trace, second: Trace, axes: Axes, pairs: Pairs) -> Shift:
    """How far the rows `pairs` of the outputs with a batch axis are apart.

    Of several outputs the one that differs most in its own scale is told. Equal means equal values, NaN equal to NaN.
    Integer outputs count when they differ and no floating one does.
    """
    rows = [(a, b, axis) for a, b, axis in zip(first.outputs, second.outputs, axes, strict=False) if axis is not None]
    firsts, seconds = [i for i, _ in pairs], [j for _, j in pairs]
    taken = [_Taken(a, b, _rows(a, axis, firsts, b), _rows(b, axis, seconds, a)) for a, b, axis in rows]
    return _worst(taken, first.compute_dtype, second.compute_dtype)


def whole_shift(first: Trace, second: Trace) -> Shift:
    """The same over everything that two runs of one batch returned, with a batch axis or without."""
    taken = [_Taken(a, b, a.values, b.values) for a, b in zip(first.outputs, second.outputs, strict=False)]
    found = _worst(taken, first.compute_dtype, second.compute_dtype)
    if len(first.outputs) != len(second.outputs) and found.exact:
        return Shift(exact=False, difference=math.inf, epsilons=math.inf, output="the number of outputs")
    return found


class _Taken(NamedTuple):
    one: Output
    other: Output
    first: Array
    second: Array


def _rows(output: Output, axis: int, rows: Sequence[int], other: Output | None = None) -> Array:
    """The rows, brought to axis 0; an output that lost its batch axis at size 1, by `other`, is one row."""
    values = output.values
    if other is not None and values.ndim < other.values.ndim:
        one_row = (*other.values.shape[:axis], *other.values.shape[axis + 1 :])
        return values.reshape((1, *one_row)) if values.size == math.prod(one_row) else values[None]
    return _moved(values.take(list(rows), axis=axis), axis)


def _moved(values: Array, axis: int) -> Array:
    import numpy as np

    return np.moveaxis(values, axis, 0)


def _worst(taken: Sequence[_Taken], *compute: str) -> Shift:
    shifts = [_one(entry, compute) for entry in taken]
    flips, decisions = _flips(taken)
    differing = [(found, is_floating(entry.one)) for found, entry in zip(shifts, taken, strict=True) if not found.exact]
    if not differing:
        return Shift(exact=True, scale=max((s.scale for s in shifts), default=0.0), flips=flips, decisions=decisions)
    floating = [found for found, is_float in differing if is_float] or [found for found, _ in differing]
    worst = max(floating, key=lambda found: found.epsilons)
    return Shift(
        exact=False,
        difference=worst.difference,
        scale=worst.scale,
        epsilons=worst.epsilons,
        output=worst.output,
        dtype=worst.dtype,
        flips=flips,
        decisions=decisions,
        shapes=worst.shapes,
    )


def _one(taken: _Taken, compute: tuple[str, ...]) -> Shift:
    import numpy as np

    one, other = taken.one, taken.other
    name = one.name
    common = unpadded(taken.first, taken.second)
    if common is None:
        shapes = " and ".join(str(list(rows.shape[1:])) for rows in (taken.first, taken.second))
        return Shift(exact=False, difference=math.inf, epsilons=math.inf, output=name, dtype=one.dtype, shapes=shapes)
    first, second = common
    if not is_floating(one):
        return _whole_numbers(name, one.dtype, first, second)
    dtype = max((one.dtype, other.dtype, *compute), key=epsilon)
    finite = np.concatenate([np.abs(first[np.isfinite(first)]), np.abs(second[np.isfinite(second)])])
    scale = float(finite.max()) if finite.size else 0.0
    if np.array_equal(first, second) or np.array_equal(first, second, equal_nan=True):
        return Shift(exact=True, scale=scale, output=name, dtype=dtype)
    difference = _difference(first, second)
    unit = scale * epsilon(dtype)
    return Shift(
        exact=False,
        difference=difference,
        scale=scale,
        epsilons=difference / unit if unit > 0 else math.inf,
        output=name,
        dtype=dtype,
    )


def unpadded(first: Array, second: Array) -> tuple[Array, Array] | None:
    """Two sets of rows (rows, …), cut to their common shape where what is cut off is padding; None where it is not.

    Packed sequences are padded to the longest of their batch: the rest of a row that is one value, the same in all
    rows, is no part of a prediction.
    """
    if first.shape == second.shape:
        return first, second
    if first.ndim != second.ndim or first.shape[:1] != second.shape[:1]:
        return None
    for axis in range(1, first.ndim):
        common = min(first.shape[axis], second.shape[axis])
        if not (common and _is_one_value(first, axis, common) and _is_one_value(second, axis, common)):
            return None
        first, second = (rows.take(range(common), axis=axis) for rows in (first, second))
    return first, second


def _is_one_value(rows: Array, axis: int, begin: int) -> bool:
    """Whether the slices of all rows from `begin` on, along `axis`, are equal."""
    import numpy as np

    rest = np.moveaxis(rows.take(range(begin, rows.shape[axis]), axis=axis), axis, 1)
    return not rest.size or np.array_equal(rest, np.broadcast_to(rest[:1, :1], rest.shape), equal_nan=_may_be_nan(rest))


def _may_be_nan(values: Array) -> bool:
    return values.dtype.kind in "fc"


def _difference(first: Array, second: Array) -> float:
    """Largest |a − b| in float64; infinite where one is finite and the other is not, or they are unlike infinities."""
    import numpy as np

    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    one, other = first.astype(wide), second.astype(wide)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    return float(np.where(np.isnan(apart), math.inf, apart).max())


def _whole_numbers(name: str, dtype: str, first: Array, second: Array) -> Shift:
    """Integers differ or do not: rounding noise does not move them, so any difference is beyond it."""
    import numpy as np

    if np.array_equal(first, second):
        return Shift(exact=True, output=name, dtype=dtype)
    if first.dtype.kind not in "iub":
        return Shift(exact=False, difference=math.inf, epsilons=math.inf, output=name, dtype=dtype)
    one, other = first.astype(np.float64), second.astype(np.float64)
    difference, scale = float(np.abs(one - other).max()), float(np.maximum(np.abs(one), np.abs(other)).max())
    return Shift(exact=False, difference=difference, scale=scale, epsilons=math.inf, output=name, dtype=dtype)


def _flips(taken: Sequence[_Taken]) -> tuple[int, int]:
    flips = decisions = 0
    for entry in taken:
        one, other = decided(entry.first), decided(entry.second)
        if one is not None and other is not None and one.shape == other.shape:
            flips += int((one != other).sum())
            decisions += one.size
    return flips, decisions


def decided(rows: Array) -> Array | None:
    """The decisions in (samples, …): argmax over the last axis of (samples, classes), the sign of a single logit.

    Integers (samples,) are decisions themselves. None for anything else.
    """
    if rows.dtype.kind in "iu" and rows.ndim == 1:
        return rows
    if rows.dtype.kind != "f":
        return None
    if rows.ndim == 2 and rows.shape[1] >= 2:
        best: Array = rows.argmax(axis=1)
        return best
    if rows.ndim == 1 or (rows.ndim == 2 and rows.shape[1] == 1):
        positive: Array = rows.reshape(-1) > 0
        return positive
    return None


def floating_rows(trace: Trace, axes: Axes, rows: Sequence[int]) -> Iterator[tuple[str, Array]]:
    """Name and rows (rows, …) of every floating output with a batch axis."""
    for output, axis in zip(trace.outputs, axes, strict=False):
        if axis is not None and is_floating(output):
            yield output.name, _rows(output, axis, rows)


def rows_differ(trace: Trace, axes: Axes, rows: Sequence[int]) -> bool:
    """Whether different samples have different outputs anywhere."""
    import numpy as np

    for output, axis in zip(trace.outputs, axes, strict=False):
        if axis is not None:
            values = _rows(output, axis, rows)
            if any(not np.array_equal(values[0], row, equal_nan=values.dtype.kind in "fc") for row in values[1:]):
                return True
    return False
