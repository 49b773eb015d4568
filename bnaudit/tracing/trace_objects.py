"""A trace as a JSON object in a shape of its own: `reports/trace-1.schema.json`, versioned."""

from __future__ import annotations

from typing import Any

from bnaudit import __version__
from bnaudit.description import Cumulative
from bnaudit.json_numbers import number
from bnaudit.tracing.by_hand import Number
from bnaudit.tracing.trace_values import ChannelState, ChannelTrace, Observed
from bnaudit.tracing.unlike_batch_norm import difference, formula
from bnaudit.tracing.worked import Column, Step, Update, Worked, normalized, worked

SCHEMA = "bnaudit.trace/1"


def trace_object(trace: ChannelTrace) -> dict[str, Any]:
    """The whole trace. NaN and infinities are the strings NaN, Infinity and -Infinity."""
    numbers = worked(trace)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "artifact": trace.path,
        "part": trace.part,
        "layer": trace.layer,
        "kind": trace.kind.value,
        "class": trace.class_name,
        "channel": trace.channel,
        "channels": trace.channels,
        "tracks_statistics": trace.tracks,
        "mode": trace.mode,
        "state": _state(trace.state),
        "inputs": trace.inputs,
        "rows": list(trace.rows),
        "runner": trace.runner,
        "observed": [_observed(each) for each in (trace.in_eval, trace.in_training) if each is not None],
        "formula": " ".join(formula(trace.kind, trace.tracks).split()),
        "unlike_batch_norm": difference(trace.kind, trace.tracks),
        "columns": [_column(column) for column in numbers.columns],
        "examples": _examples(numbers),
        "normalized": [{"z": number(z.exact), "y": _both(y)} for z, y in normalized(numbers)],
        "updates": [_update(update) for update in numbers.updates],
        "remarks": list(trace.remarks),
    }


def _state(state: ChannelState) -> dict[str, Any]:
    momentum = "cumulative" if isinstance(state.momentum, Cumulative) else number(state.momentum)
    values = {name: number(getattr(state, name)) for name in ("mean", "var", "gamma", "beta", "counter", "eps")}
    assumed = [name for name in ("eps", "momentum") if getattr(state, f"{name}_assumed")]
    return {
        **values,
        "momentum": momentum,
        "assumed": assumed,
        "dtypes": dict(state.dtypes),
        "absent": dict(state.absent),
    }


def _observed(seen: Observed) -> dict[str, Any]:
    samples = (
        []
        if seen.sample_mean is None or seen.sample_var is None
        else zip(seen.sample_mean, seen.sample_var, strict=True)
    )
    return {
        "mode": seen.mode,
        "values": seen.values,
        "values_per_sample": seen.per_sample,
        "mean": number(seen.mean),
        "biased_variance": number(seen.biased),
        "unbiased_variance": number(seen.unbiased),
        "uses_batch": seen.uses_batch,
        "calls": seen.calls,
        "samples": [{"mean": number(float(mean)), "variance": number(float(var))} for mean, var in samples],
    }


def _column(column: Column) -> dict[str, Any]:
    names = ("mean", "var", "var_eps", "root", "gain", "shift")
    return {"title": column.title, **{name: _both(getattr(column, name)) for name in names}}


def _examples(numbers: Worked) -> list[dict[str, Any]]:
    return [
        {"what": what, "x": number(x.exact), "steps": [_step(step) for step in steps]}
        for what, x, steps in numbers.examples
    ]


def _step(step: Step) -> dict[str, Any]:
    return {
        "centred": _both(step.centred),
        "scaled": _both(step.scaled),
        "gained": _both(step.gained),
        "y": _both(step.result),
    }


def _update(update: Update) -> dict[str, Any]:
    names = {
        "keep": update.keep,
        "old": update.old,
        "weight": update.weight,
        "observed": update.seen,
        "new": update.new,
    }
    return {"name": update.name, **{name: _both(value) for name, value in names.items()}}


def _both(value: Number) -> dict[str, Any]:
    return {"exact": number(value.exact), "printed": value.text.replace("−", "-")}
