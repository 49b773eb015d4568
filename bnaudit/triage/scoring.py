"""What a forward returned, in the form in which production's scores were observed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.errors import UnreadableError
from bnaudit.session import Batch, Output, Trace
from bnaudit.shifts import row_axes

Array: TypeAlias = NDArray[np.float64]

_SUM_TOLERANCE = 0.02
"""How far from 1 a row of rounded probabilities may sum."""
_TIE = 1e-5
"""Two best scores closer than this, relative to the output's scale, are a tie that any rounding may decide."""
_FORMS = {
    "as returned": "",
    "softmax": "softmax of ",
    "sigmoid": "sigmoid of ",
    "labels": "highest entry of ",
    "signs": "sign of ",
    "halves": "decisions at 0.5 of ",
}
_LIMITS = {"signs": 0.0, "halves": 0.5}
"""Of forms that are one entry's label: above it 1, below it 0."""


class Scoring(NamedTuple):
    """Which output the scores are of, and how they come from it."""

    output: int
    axis: int
    columns: tuple[int, ...] | None
    """Entries of the flattened output; None: all."""
    form: str
    kind: ScoreKind
    said: str
    """`softmax of output ['logits'], 10 columns`"""
    remarks: tuple[str, ...] = ()

    def of(self, trace: Trace) -> Array:
        """(samples, columns): for labels one column, NaN where the two best entries tie."""
        return _formed(_flat(trace.outputs[self.output], self.axis), self.form, self.columns)

    @property
    def is_labels(self) -> bool:
        """Whether two scores are equal or not, and nothing in between."""
        return self.kind is ScoreKind.LABELS


def scoring(trace: Trace, batch: Batch, observed: Observed, inputs: NDArray[np.int64]) -> Scoring:
    """How the observed scores of these inputs come from what the model in eval returned for them.

    inputs: which input each row of the batch is. Where several outputs, forms or columns are possible, those nearest
    to the observed scores are taken. Raises UnreadableError when no output has as many columns.
    """
    pairs = _pairs(observed, inputs)
    seen = observed.values[pairs[0]].reshape(len(pairs[0]), -1).astype(np.float64)
    candidates = list(_candidates(trace, batch, observed, seen))
    if not candidates:
        shapes = ", ".join(f"{output.name or 'output'} {output.values.shape}" for output in trace.outputs)
        what = f"no output of the model can give {seen.shape[1]} scores for each input: it returns {shapes}"
        raise UnreadableError(what, where=observed.source, remedy="say which columns the scores are")
    if len(candidates) == 1:
        return candidates[0]
    distances = [_distance(candidate, trace, pairs[1], seen) for candidate in candidates]
    chosen = candidates[int(np.argmin(distances))]
    said = f"the observed scores are taken for {chosen.said}, which is nearest"
    return chosen._replace(remarks=(*chosen.remarks, said))


def _pairs(observed: Observed, inputs: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Observations of these inputs, and the batch's row of each."""
    place = {int(row): position for position, row in reversed(list(enumerate(inputs)))}
    found = [number for number, row in enumerate(observed.rows) if int(row) in place]
    return found, [place[int(observed.rows[number])] for number in found]


def _distance(candidate: Scoring, trace: Trace, rows: list[int], seen: Array) -> float:
    made = candidate.of(trace)[rows]
    if candidate.is_labels:
        return float(np.mean(made != seen))
    difference = made - seen
    return float(np.sqrt(np.nanmean(difference**2))) if np.isfinite(difference).any() else float("inf")


def _candidates(trace: Trace, batch: Batch, observed: Observed, seen: Array) -> Iterator[Scoring]:
    for number, (output, axis) in enumerate(zip(trace.outputs, row_axes(trace, batch), strict=True)):
        if axis is None or output.values.dtype.kind not in "fiub":
            continue
        flat = _flat(output, axis)
        for kind, form in _forms(observed, seen, flat):
            columns = _columns(observed, seen, flat, form)
            if columns is _NONE:
                continue
            said = f"{_FORMS[form]}{f'output {output.name}' if output.name else 'the output'}"
            remarks: tuple[str, ...] = ()
            if columns is not None and observed.columns is None:
                remarks = (f"which columns were observed was not said: the nearest are {list(columns)[:8]}",)
            yield Scoring(number, axis, columns, form, kind, said, remarks)


_NONE: Any = object()


def _columns(observed: Observed, seen: Array, flat: Array, form: str) -> tuple[int, ...] | None:
    """Entries of the flattened output; `_NONE`: it has too few."""
    if form in ("labels", *_LIMITS):
        return None
    width = flat.shape[1]
    if observed.columns is not None:
        return observed.columns if max(observed.columns, default=0) < width else _NONE
    if seen.shape[1] == width:
        return None
    if seen.shape[1] > width:
        return _NONE  # type: ignore[no-any-return]
    return _nearest_columns(seen, _formed(flat, form, None))


def _nearest_columns(seen: Array, made: Array) -> tuple[int, ...]:
    """For each observed column the entry whose values are nearest, compared as distributions: rows may not pair."""
    levels = np.linspace(0.0, 1.0, 9)
    own = np.nanquantile(seen, levels, axis=0)
    theirs = np.nanquantile(made, levels, axis=0)
    distance = np.abs(own[:, :, None] - theirs[:, None, :]).mean(axis=0)
    return tuple(int(column) for column in distance.argmin(axis=1))


def _forms(observed: Observed, seen: Array, flat: Array) -> Iterator[tuple[ScoreKind, str]]:
    """The kinds that the scores may be, each with how they come from this output."""
    kind = observed.kind or _guessed(observed, seen, flat)
    if kind is ScoreKind.LABELS:
        # Told from all inputs: a single logit between 0 and 1 looks like a probability.
        yield kind, "labels" if flat.shape[1] > 1 else "halves" if _are_probabilities(flat) else "signs"
    elif kind is not ScoreKind.PROBABILITIES or _are_probabilities(flat):
        yield kind, "as returned"
    else:
        whole = seen.shape[1] > 1 and bool(np.nanmax(np.abs(np.nansum(seen, axis=1) - 1)) < _SUM_TOLERANCE)
        if flat.shape[1] > 1:
            yield kind, "softmax"
        if not whole or flat.shape[1] == 1:
            yield kind, "sigmoid"


def _guessed(observed: Observed, seen: Array, flat: Array) -> ScoreKind:
    if observed.values.dtype.kind in "iu" and observed.values.ndim == 1 and flat.shape[1] > 1:
        return ScoreKind.LABELS
    return ScoreKind.PROBABILITIES if _are_probabilities(seen) else ScoreKind.LOGITS


def _are_probabilities(values: Array) -> bool:
    known = values[np.isfinite(values)]
    return bool(known.size and known.min() >= 0 and known.max() <= 1)


def _flat(output: Output, axis: int) -> Array:
    values = np.moveaxis(np.asarray(output.values), axis, 0)
    return values.reshape(values.shape[0], -1).astype(np.float64)


def _formed(flat: Array, form: str, columns: tuple[int, ...] | None) -> Array:
    with np.errstate(all="ignore"):
        if form == "labels":
            return _labels(flat)
        if form in _LIMITS:
            return _decided(flat, _LIMITS[form])
        if form == "softmax":
            powers = np.exp(flat - flat.max(axis=1, keepdims=True))
            flat = powers / powers.sum(axis=1, keepdims=True)
        elif form == "sigmoid":
            flat = 1 / (1 + np.exp(-flat))
    return flat if columns is None else flat[:, list(columns)]


def _labels(flat: Array) -> Array:
    """(samples, 1); −1 where an entry is not finite, NaN where the two best entries tie."""
    best: Array = flat.argmax(axis=1).astype(np.float64)
    first, second = np.partition(flat, -2, axis=1)[:, [-1, -2]].T
    best[first - second <= _TIE * np.sqrt(np.mean(flat**2))] = np.nan
    best[~np.isfinite(flat).all(axis=1)] = -1
    return best[:, None]


def _decided(flat: Array, limit: float) -> Array:
    labels = (flat > limit).astype(np.float64)
    labels[np.abs(flat - limit) <= _TIE * np.sqrt(np.mean(flat**2))] = np.nan
    labels[~np.isfinite(flat)] = -1
    return labels[:, :1]
