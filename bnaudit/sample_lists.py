"""Outputs that come as a list with one entry per sample, as detectors return them, made into outputs with a batch axis.

`[0]['boxes']` (37, 4), `[1]['boxes']` (12, 4), … become `[*]['boxes']` (samples, 37, 4), filled up with NaN or 0, and
`size of [*]['boxes']` (samples, 2), so that rows can be compared as those of any other output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bnaudit.records import replace
from bnaudit.session import Output, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

_INDEX = re.compile(r"\[(\d+)\]")
_FEWEST = 3
"""Two entries for two samples are more often two outputs: `(logits, loss)`."""


class SampleLists:
    """Which lists of a model's outputs have an entry per sample; found on its first forward, the largest batch."""

    def __init__(self) -> None:
        self._prefixes: tuple[str, ...] | None = None

    def stacked(self, trace: Trace, size: int) -> Trace:
        """The trace with these lists as outputs that have rows; a trace without them as it is."""
        if self._prefixes is None:
            self._prefixes = tuple(_found(trace, size)) if size >= _FEWEST else ()
        outputs = trace.outputs
        for prefix in self._prefixes:
            outputs = _stacked(outputs, prefix, size)
        return trace if outputs is trace.outputs else replace(trace, outputs=outputs)


class _Entry(NamedTuple):
    sample: int
    suffix: str
    output: Output


def _entries(outputs: tuple[Output, ...], prefix: str) -> Iterator[_Entry]:
    for output in outputs:
        index = _INDEX.match(output.name, len(prefix)) if output.name.startswith(prefix) else None
        if index is not None:
            yield _Entry(int(index.group(1)), output.name[index.end() :], output)


def _found(trace: Trace, size: int) -> Iterator[str]:
    """Lists, outermost first, with as many entries as samples, all alike, which have not all an axis of that size."""
    prefixes = dict.fromkeys(
        output.name[: index.start()] for output in trace.outputs for index in _INDEX.finditer(output.name)
    )
    taken: list[str] = []
    for prefix in sorted(prefixes, key=len):
        if not any(prefix.startswith(outer + "[") for outer in taken) and _is_per_sample(trace, prefix, size):
            taken.append(prefix)
            yield prefix


def _is_per_sample(trace: Trace, prefix: str, size: int) -> bool:
    columns = _columns(trace.outputs, prefix, size)
    return columns is not None and not all(_shares_axis(column, size) for column in columns.values())


def _columns(outputs: tuple[Output, ...], prefix: str, size: int) -> dict[str, list[Output]] | None:
    """The samples' outputs by what follows the index, in the order of the samples; None unless all are alike."""
    columns: dict[str, dict[int, Output]] = {}
    for entry in _entries(outputs, prefix):
        columns.setdefault(entry.suffix, {})[entry.sample] = entry.output
    alike = (
        set(column) == set(range(size)) and len({(o.dtype, o.values.ndim) for o in column.values()}) == 1
        for column in columns.values()
    )
    if not columns or not all(alike):
        return None
    return {suffix: [column[sample] for sample in range(size)] for suffix, column in columns.items()}


def _shares_axis(column: list[Output], size: int) -> bool:
    """Whether one axis is as long as the batch in every entry: these may be several outputs, each with all samples."""
    return any(all(output.values.shape[axis] == size for output in column) for axis in range(column[0].values.ndim))


def _stacked(outputs: tuple[Output, ...], prefix: str, size: int) -> tuple[Output, ...]:
    columns = _columns(outputs, prefix, size)
    if columns is None:
        return outputs
    made: list[Output] = []
    for suffix, column in columns.items():
        made += _column(f"{prefix}[*]{suffix}", column)
    inside = {id(output) for column in columns.values() for output in column}
    first = next(at for at, output in enumerate(outputs) if id(output) in inside)
    kept = [output for output in outputs if id(output) not in inside]
    return (*kept[:first], *made, *kept[first:])


def _column(name: str, column: list[Output]) -> Iterator[Output]:
    import numpy as np

    arrays: list[Array] = [output.values for output in column]
    yield Output(name=name, values=np.stack(_filled(arrays)), dtype=column[0].dtype)
    if arrays[0].ndim:
        sizes = np.array([array.shape for array in arrays], np.int64)
        yield Output(name=f"size of {name}", values=sizes, dtype="int64")


def _filled(arrays: list[Array]) -> list[Array]:
    """The arrays in the smallest shape that holds them all, the rest NaN, or 0 for what knows no NaN."""
    import numpy as np

    shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
    fill = np.nan if arrays[0].dtype.kind in "fc" else 0
    filled = [np.full(shape, fill, array.dtype) for array in arrays]
    for into, array in zip(filled, arrays, strict=True):
        into[tuple(slice(0, size) for size in array.shape)] = array
    return filled
