"""A trace as a page for a person: 80 columns, plain text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from bnaudit.description import Cumulative
from bnaudit.printable import printable
from bnaudit.tracing import by_hand
from bnaudit.tracing.trace_values import ChannelTrace, Observed
from bnaudit.tracing.unlike_batch_norm import difference, formula
from bnaudit.tracing.worked import Worked, normalized, worked

_LABEL = 32
_COLUMN = 22
_VALUE = 14
_MOST_SAMPLES = 8
"""Samples of which the page lists the moments; JSON has all."""


def page(trace: ChannelTrace, width: int = 80) -> str:
    """The whole page."""
    numbers = worked(trace)
    sections = [
        _heading(trace),
        _state(trace, numbers),
        _mode(trace, width),
        _observations(trace, width),
        _arithmetic(trace, numbers, width),
        _update(trace, numbers, width),
        _remarks(trace, width),
    ]
    return "\n".join("\n".join([*lines, ""]) for lines in map(list, sections) if lines)


def _heading(trace: ChannelTrace) -> Iterable[str]:
    of = f" of {trace.channels}" if trace.channels is not None else ""
    name = printable(trace.class_name) or f"{trace.kind.value} norm"
    yield f"{printable(trace.layer) or 'the root'}, channel {trace.channel}{of} · {name}"
    where = printable(trace.path) + (f", part {printable(trace.part)}" if trace.part else "")
    yield where + (f" · {trace.runner}" if trace.runner else "")


_NAMES = (("mean", "running_mean"), ("var", "running_var"), ("gamma", "weight (gamma)"), ("beta", "bias (beta)"))


def _state(trace: ChannelTrace, numbers: Worked) -> Iterable[str]:
    state, dtypes, absent = trace.state, dict(trace.state.dtypes), dict(trace.state.absent)
    yield "The state: what is saved"
    for name, title in _NAMES:
        value = getattr(state, name)
        if value is not None:
            dtype = dtypes.get(name, "float32")
            yield _row(title, by_hand.stored(value, dtype).text, note=dtype)
        elif trace.tracks is not False or name in ("gamma", "beta"):
            yield f"  {title:<{_LABEL - 2}}{absent[name]}"
    if state.counter is not None:
        yield _row("num_batches_tracked", by_hand.written(state.counter))
    yield _row("epsilon", numbers.eps.text, note="PyTorch's default: not in the file" if state.eps_assumed else "")
    if trace.tracks is not False:
        yield _momentum(trace)


def _momentum(trace: ChannelTrace) -> str:
    momentum = trace.state.momentum
    if isinstance(momentum, Cumulative) or momentum is None:
        return _row("momentum", "None", note="batch number n weighs 1/n")
    note = "PyTorch's default: not in the file" if trace.state.momentum_assumed else "weight of the new batch"
    return _row("momentum", by_hand.stored(momentum, "float64").text, note=note)


def _mode(trace: ChannelTrace, width: int) -> Iterable[str]:
    yield "The mode"
    yield from _wrapped(trace.mode, width)
    if trace.in_eval is not None and trace.in_eval.uses_batch:
        yield from _wrapped(
            "run in eval mode it still normalized with the batch: neighbours decide a prediction", width
        )


def _observations(trace: ChannelTrace, width: int) -> Iterable[str]:
    if not trace.inputs:
        yield "The observations"
        said = "none: give --inputs (and --model for a state dict) to see what the channel receives, what the batch"
        yield from _wrapped(f"{said} makes of it in training mode, and what a training step would store", width)
        return
    yield "The observations: what the channel receives"
    yield from _wrapped(f"{printable(trace.inputs)}: rows {_ranges(trace.rows)}, in one batch", width)
    seen = [each for each in (trace.in_eval, trace.in_training) if each is not None]
    if not seen:
        return
    yield _columns("", [f"in {each.mode} mode" for each in seen])
    yield _columns("values n = samples × values", [_count(each) for each in seen])
    yield _columns("mean", [by_hand.measured(each.mean).text for each in seen])
    yield _columns("variance ÷ n (biased)", [by_hand.measured(each.biased).text for each in seen])
    yield _columns("variance ÷ (n − 1) (unbiased)", [_unbiased(each) for each in seen])
    if trace.in_eval is not None:
        yield from _samples(trace.in_eval, trace.rows)


def _count(seen: Observed) -> str:
    return f"{seen.values:,} = {seen.values // seen.per_sample:,} × {seen.per_sample:,}"


def _unbiased(seen: Observed) -> str:
    return "of one value: none" if seen.unbiased is None else by_hand.measured(seen.unbiased).text


def _samples(seen: Observed, rows: Sequence[int]) -> Iterable[str]:
    if seen.sample_mean is None or seen.sample_var is None:
        return
    yield _columns("each sample by itself, in eval", ["mean", "variance"])
    for row, mean, var in list(zip(rows, seen.sample_mean, seen.sample_var, strict=False))[:_MOST_SAMPLES]:
        yield _columns(f"row {row}", [f"{by_hand.written(float(f'{value:.6g}'))}" for value in (mean, var)])
    if len(rows) > _MOST_SAMPLES:
        yield f"  and {len(rows) - _MOST_SAMPLES} more: --format json has all"


def _arithmetic(trace: ChannelTrace, numbers: Worked, width: int) -> Iterable[str]:
    said = difference(trace.kind, trace.tracks)
    yield f"The formula: {formula(trace.kind, trace.tracks)}"
    yield from _wrapped(said, width)
    if not numbers.columns:
        yield from _normalized(numbers)
        return
    yield _columns("", [column.title for column in numbers.columns])
    for label, name in (
        ("mean", "mean"),
        ("variance", "var"),
        (f"variance + epsilon {numbers.eps.text}", "var_eps"),
        ("root: √(variance + epsilon)", "root"),
    ):
        yield _columns(label, [getattr(column, name).text for column in numbers.columns])
    yield from _steps(numbers)
    if any(math.isnan(column.root.exact) for column in numbers.columns):
        yield from _wrapped("variance + epsilon has no square root: every output of this channel is NaN", width)
    yield ""
    yield "The same as one multiplication and one addition: y = gain · x + shift"
    yield _columns("gain = gamma / root", [column.gain.text for column in numbers.columns])
    yield _columns("shift = beta − mean · gain", [column.shift.text for column in numbers.columns])


def _steps(numbers: Worked) -> Iterable[str]:
    for name, x, steps in numbers.examples:
        yield f"  x = {x.text}, {name}"
        yield _columns("  x − mean", [step.centred.text for step in steps])
        yield _columns("  / root", [step.scaled.text for step in steps])
        yield _columns(f"  · gamma {numbers.gamma.text}", [step.gained.text for step in steps])
        yield _columns(f"  + beta {numbers.beta.text} = y", [step.result.text for step in steps])


def _normalized(numbers: Worked) -> Iterable[str]:
    """Of a norm whose mean and variance are known only when it runs: from the normalized value on."""
    yield f"  y = z · {_term(numbers.gamma.text)} + {_term(numbers.beta.text)}"
    for z, y in normalized(numbers):
        yield _columns(f"  z = {z.text}", [f"y = {y.text}"])


def _update(trace: ChannelTrace, numbers: Worked, width: int) -> Iterable[str]:
    if not numbers.updates:
        return
    yield "What a training step on these inputs would store"
    yield from _wrapped("running ← (1 − m) · running + m · observed, the variance unbiased", width)
    for update in numbers.updates:
        yield f"  {update.name}"
        terms = f"{update.keep.text} · {_term(update.old.text)} + {update.weight.text} · {_term(update.seen.text)}"
        yield f"    {terms} = {update.new.text}"
    if trace.state.counter is not None:
        count = trace.state.counter
        yield f"  num_batches_tracked: {by_hand.written(count)} becomes {by_hand.written(count + 1)}"
    else:
        yield "  num_batches_tracked is not in the file; it would be one more"


def _remarks(trace: ChannelTrace, width: int) -> Iterable[str]:
    for remark in trace.remarks:
        yield from _wrapped(printable(remark), width)


def _term(text: str) -> str:
    return f"({text})" if text.startswith("−") else text


def _row(label: str, value: str, note: str = "") -> str:
    return f"  {label:<{_LABEL - 2}}{value:<{_VALUE if note else 0}}{note}".rstrip()


def _columns(label: str, values: Sequence[str]) -> str:
    return f"  {label:<{_LABEL - 2}}" + "".join(f"{value:>{_COLUMN}}" for value in values)


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, max(20, width - 2), break_long_words=True, break_on_hyphens=False)
    return [f"  {line}" for line in lines]


def _ranges(rows: Sequence[int]) -> str:
    """`0–15`; repeated rows are said."""
    if not rows:
        return "none"
    different = sorted(set(rows))
    text = f"{different[0]}–{different[-1]}" if len(different) > 1 else str(different[0])
    return text if len(different) == len(rows) else f"{text}, repeated to {len(rows)}"
