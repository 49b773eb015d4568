"""The formula of a batch norm with the numbers of one channel, step by step, as they are printed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from bnaudit.arithmetic import effective_momentum
from bnaudit.description import Cumulative
from bnaudit.tracing import by_hand
from bnaudit.tracing.by_hand import Number
from bnaudit.tracing.trace_values import ChannelState, ChannelTrace, Observed

_ONE, _ZERO = by_hand.stored(1.0), by_hand.stored(0.0)
_X_DIGITS = 6
"""Significant digits of an example activation."""


class Step(NamedTuple):
    """An activation on its way through one column."""

    centred: Number
    scaled: Number
    gained: Number
    result: Number


class Column(NamedTuple):
    """What one mode computes with, derived number by number."""

    title: str
    mean: Number
    var: Number
    var_eps: Number
    root: Number
    gain: Number
    shift: Number

    def step(self, x: Number, gamma: Number, beta: Number) -> Step:
        """y = (x − mean) / √(variance + epsilon) · gamma + beta."""
        centred = by_hand.minus(x, self.mean)
        scaled = by_hand.over(centred, self.root)
        gained = by_hand.times(scaled, gamma)
        return Step(centred, scaled, gained, by_hand.plus(gained, beta))


class Update(NamedTuple):
    """running ← (1 − m) · running + m · observed, for one of the two statistics."""

    name: str
    keep: Number
    old: Number
    weight: Number
    seen: Number
    new: Number


class Worked(NamedTuple):
    """All numbers of the page."""

    eps: Number
    gamma: Number
    beta: Number
    columns: tuple[Column, ...]
    examples: tuple[tuple[str, Number, tuple[Step, ...]], ...]
    """(what it is, x, one step per column)"""
    updates: tuple[Update, ...]


def worked(trace: ChannelTrace) -> Worked:
    """The page's numbers; columns for which there are no statistics are left out."""
    state = trace.state
    eps = by_hand.stored(state.eps if state.eps is not None else math.nan, "float64")
    gamma, beta = _stored(state, "gamma", 1.0), _stored(state, "beta", 0.0)
    columns = tuple(_columns(trace, eps, gamma, beta))
    examples = tuple(
        (name, x, tuple(column.step(x, gamma, beta) for column in columns)) for name, x in _examples(trace, columns)
    )
    return Worked(eps, gamma, beta, columns, examples, tuple(_updates(trace)))


def normalized(numbers: Worked) -> tuple[tuple[Number, Number], ...]:
    """(z, y) of three normalized values, for a norm whose mean and variance are known only when it runs."""
    if numbers.columns:
        return ()
    inputs = [by_hand.stored(z) for z in (-1.0, 0.0, 1.0)]
    return tuple((z, by_hand.sum_of((1, z, numbers.gamma), (1, _ONE, numbers.beta))) for z in inputs)


def _columns(trace: ChannelTrace, eps: Number, gamma: Number, beta: Number) -> Iterable[Column]:
    state = trace.state
    leaks = trace.in_eval is not None and trace.in_eval.uses_batch
    if state.mean is not None and state.var is not None and not leaks:
        mean, var = _stored(state, "mean", 0.0), _stored(state, "var", 1.0)
        yield _column("eval: stored", mean, var, eps, gamma, beta)
    elif leaks and trace.in_eval is not None:
        yield _of_batch("eval: the batch!", trace.in_eval, eps, gamma, beta)
    if trace.in_training is not None and trace.in_training.uses_batch:
        yield _of_batch("training: this batch", trace.in_training, eps, gamma, beta)


def _of_batch(title: str, seen: Observed, eps: Number, gamma: Number, beta: Number) -> Column:
    return _column(title, by_hand.measured(seen.mean), by_hand.measured(seen.biased), eps, gamma, beta)


def _column(title: str, mean: Number, var: Number, eps: Number, gamma: Number, beta: Number) -> Column:
    var_eps = by_hand.plus(var, eps)
    root = by_hand.root(var_eps)
    gain = by_hand.over(gamma, root)
    return Column(title, mean, var, var_eps, root, gain, by_hand.sum_of((1, beta, _ONE), (-1, mean, gain)))


def _examples(trace: ChannelTrace, columns: tuple[Column, ...]) -> Iterable[tuple[str, Number]]:
    """The mean of what it receives, and one standard deviation to both sides; the stored ones without inputs."""
    seen = trace.in_eval or trace.in_training
    if seen is not None:
        mean, var, of = seen.mean, seen.biased, "the mean of what it receives"
    elif columns:
        mean, var, of = columns[0].mean.exact, columns[0].var.exact, "the stored mean"
    else:
        return
    if not (math.isfinite(mean) and math.isfinite(var) and var >= 0):
        return
    spread = math.sqrt(var)
    yield f"one sd below {of}", _example(mean - spread)
    yield of, _example(mean) if seen is not None else columns[0].mean
    yield f"one sd above {of}", _example(mean + spread)


def _example(value: float) -> Number:
    """The activation is what is printed, exactly."""
    return by_hand.stored(float(f"{value:.{_X_DIGITS}g}"), "float64")


def _updates(trace: ChannelTrace) -> Iterable[Update]:
    state, seen = trace.state, trace.in_training
    if seen is None or not seen.uses_batch or state.momentum is None or seen.unbiased is None:
        return
    if isinstance(state.momentum, Cumulative) and state.counter is None:
        return
    updates = int(state.counter) if state.counter is not None and math.isfinite(state.counter) else 0
    momentum = effective_momentum(state.momentum, updates)
    weight = by_hand.stored(momentum, "float64") if not isinstance(state.momentum, Cumulative) else _share(momentum)
    keep = by_hand.minus(_ONE, weight)
    for name, value in (("mean", seen.mean), ("var", seen.unbiased)):
        if getattr(state, name) is None:
            continue
        old, new_seen = _stored(state, name, 0.0), by_hand.measured(value)
        new = by_hand.sum_of((1, keep, old), (1, weight, new_seen))
        yield Update(f"running_{name}", keep, old, weight, new_seen, new)


def _share(momentum: float) -> Number:
    """1 / (n + 1) of a cumulative average, to as many digits as a stored number has."""
    return by_hand.measured(momentum)


def _stored(state: ChannelState, name: str, neutral: float) -> Number:
    value = getattr(state, name)
    return by_hand.stored(neutral if value is None else value, dict(state.dtypes).get(name, "float32"))
