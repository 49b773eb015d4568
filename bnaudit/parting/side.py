"""One side of a comparison: everything that is kept of running it on the inputs, none of it a live tensor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bnaudit.description import Carrier, Part
from bnaudit.parting.inputs import Inputs, batch_size, batches, fewest
from bnaudit.progress import Progress
from bnaudit.records import Record, replace
from bnaudit.run_options import RunOptions
from bnaudit.session import (
    Batch,
    Mode,
    NormCall,
    NotPossibleError,
    Output,
    RandomCall,
    RunError,
    Session,
    StateChange,
    Trace,
    Watch,
)
from bnaudit.shifts import Axes, Band, band, row_axes, whole_shift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

_WATCHED = 128
"""Samples whose moments are kept at every norm; outputs are kept of all."""
_MOST_BYTES = 1 << 30
"""Of outputs that are kept."""


class Seen(Record, eq=False):
    """One norm call of the forward, over the samples that were watched."""

    call: NormCall
    """Of the first batch."""
    mean: NDArray[np.float64] | None = None
    """(samples, channels): each sample's own mean of what the norm received; None: it was not watched."""
    var: NDArray[np.float64] | None = None
    """(samples, channels), biased."""


class Ran(Record, eq=False):
    """What running one side on the inputs showed."""

    runner: str
    carrier: Carrier
    part: Part
    outputs: tuple[Output, ...]
    """Rows of all batches along axis 0; of an output without rows the first batch's."""
    with_rows: tuple[bool, ...]
    """Which outputs have rows."""
    norms: tuple[Seen, ...]
    random: tuple[RandomCall, ...]
    changes: tuple[StateChange, ...]
    unsteady: str
    """What else the outputs depend on than the inputs, in words; "": nothing."""
    dtype: str
    """Coarsest of its parameters and operators."""
    samples: int
    batch: int
    """Rows of one forward."""
    remarks: tuple[str, ...] = ()


def run_side(
    session: Session,
    inputs: Inputs,
    options: RunOptions,
    progress: Progress,
    name: str,
    most: int,
    *,
    twice: bool = True,
) -> Ran:
    """Run the model in eval mode on the first `most` samples, in order.

    twice: look whether the first batch gives the same again, where there is reason to. Raises RunError when the model
    raises.
    """
    size = batch_size(session, inputs.pool, options)
    kept = _Kept(session, min(most, inputs.pool.size))
    begin, total = time.monotonic(), -(-kept.most // size)
    pool = inputs.pool if kept.most == inputs.pool.size else inputs.pool.take(range(kept.most))
    for number, (batch, count) in enumerate(batches(pool, size, fewest(session)), 1):
        progress.forward(name, number, total)
        kept.add(batch, count, _forward(session, batch, kept.samples < _WATCHED, options.seed))
        if kept.bytes > _MOST_BYTES:
            kept.stop("their outputs fill the memory that is kept for them")
        elif options.budget is not None and time.monotonic() - begin > options.budget / 3:
            kept.stop("the time of --budget is over")
        if kept.stopped:
            break
    return kept.ran(size, _unsteady(session, kept, options.seed) if twice else "")


def _forward(session: Session, batch: Batch, closely: bool, seed: int) -> Trace:
    if closely:
        try:
            return session.run(batch, Mode.INFERENCE, Watch.MOMENTS, seed=seed)
        except NotPossibleError:
            return session.run(batch, Mode.INFERENCE, Watch.CALLS, seed=seed)
    return session.run(batch, Mode.INFERENCE, Watch.CALLS, seed=seed)


class _Kept:
    """What is kept while the batches run."""

    def __init__(self, session: Session, most: int) -> None:
        self.session, self.most = session, most
        self.first: tuple[Batch, Trace] | None = None
        self.last: tuple[Batch, Trace] | None = None
        self.outputs: list[tuple[int, tuple[Output, ...]]] = []
        self.moments: dict[int, list[tuple[Array, Array]]] = {}
        self.samples = self.bytes = 0
        self.stopped = ""

    def add(self, batch: Batch, count: int, trace: Trace) -> None:
        if self.first is None:
            self.first = batch, trace
        self.last = batch, trace
        self.outputs.append((count, trace.outputs))
        self.bytes += sum(output.values.nbytes for output in trace.outputs)
        if self.samples < _WATCHED:
            for call in trace.norm_calls:
                if call.sample_mean is not None and call.sample_var is not None and len(call.sample_mean) == batch.size:
                    pieces = self.moments.setdefault(call.index, [])
                    pieces.append((call.sample_mean[:count], call.sample_var[:count]))
        self.samples += count

    def stop(self, why: str) -> None:
        if self.samples < self.most:
            self.stopped = f"the first {self.samples} samples were compared, of {self.most}: {why}"

    def ran(self, size: int, unsteady: str) -> Ran:
        assert self.first is not None and self.last is not None
        batch, trace = self.first
        axes = row_axes(trace, batch, self.last[1], self.last[0].size)
        session = self.session
        return Ran(
            runner=session.runner,
            carrier=session.carrier,
            part=session.part,
            outputs=tuple(self._joined(position, axis) for position, axis in enumerate(axes)),
            with_rows=tuple(axis is not None for axis in axes),
            norms=tuple(self._seen(call) for call in trace.norm_calls),
            random=trace.random_calls,
            changes=trace.changes,
            unsteady=unsteady,
            dtype=trace.compute_dtype,
            samples=self.samples,
            batch=size,
            remarks=(*session.remarks, *((self.stopped,) if self.stopped else ())),
        )

    def _joined(self, position: int, axis: int | None) -> Output:
        first = self.outputs[0][1][position]
        if axis is None:
            return first
        named = [(count, _same(outputs, position, first)) for count, outputs in self.outputs]
        pieces = [np.moveaxis(output.values, axis, 0)[:count] for count, output in named if output is not None]
        if len({piece.shape[1:] for piece in pieces}) > 1 or len(pieces) < len(named):
            pieces = pieces[:1]  # padded to another length in every batch: only the first is compared
        return replace(first, values=np.concatenate(pieces))

    def _seen(self, call: NormCall) -> Seen:
        pieces = self.moments.get(call.index)
        if not pieces or len({piece[0].shape[1:] for piece in pieces}) > 1:
            return Seen(call=call)
        mean, var = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return Seen(call=call, mean=mean, var=var)


def _same(outputs: tuple[Output, ...], position: int, first: Output) -> Output | None:
    """This output in another batch; None where the model returned it otherwise there."""
    if position >= len(outputs) or outputs[position].name != first.name:
        return None
    return outputs[position] if outputs[position].values.ndim == first.values.ndim else None


def _unsteady(session: Session, kept: _Kept, seed: int) -> str:
    """Whether the first batch gives other outputs with other random numbers, or after what ran before."""
    assert kept.first is not None
    batch, trace = kept.first
    try:
        if trace.random_calls:
            other = session.run(batch, Mode.INFERENCE, Watch.CALLS, seed=seed + 1)
            if band(whole_shift(trace, other)) is not Band.EXACT:
                return "its outputs depend on random numbers"
        if any(change.persistent or change.kind != "attribute" for change in trace.changes):
            session.run(batch, Mode.INFERENCE, Watch.CALLS, seed=seed)
            again = session.run(batch, Mode.INFERENCE, Watch.CALLS, restored=False, seed=seed)
            if band(whole_shift(trace, again)) is Band.LEAK:
                return f"its outputs depend on what ran before: {trace.changes[0].name} changes"
    except RunError as error:
        return f"it raises when the same inputs come again: {error.what}"
    return ""


def axes_of(ran: Ran) -> Axes:
    """Of the kept outputs, for `shifts`."""
    return tuple(0 if there else None for there in ran.with_rows)
