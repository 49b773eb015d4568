"""Runs the model on the first inputs, once in eval and once with all norms in training mode, and keeps one channel."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.description import NormLayer
from bnaudit.errors import UnreadableError
from bnaudit.session import Batch, Mode, NormCall, NotPossibleError, RunError, Session, Trace, Watch
from bnaudit.tracing.trace_values import Observed

if TYPE_CHECKING:
    from bnaudit.run_options import RunOptions

_ROWS = 16
"""Samples that are run unless --batch-size says otherwise."""


class Fed(NamedTuple):
    """The inputs of a trace."""

    batch: Batch
    rows: tuple[int, ...]
    source: str
    remarks: tuple[str, ...]


def feed(session: Session, options: RunOptions) -> Fed:
    """The first inputs in the order in which they are given, as one batch. Raises what reading inputs raises."""
    from bnaudit.feeds.in_order import open_in_order

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's loader
        given = open_in_order(session, options)
    if not given.pool.size:
        raise UnreadableError("the inputs hold no sample", where=given.name, remedy="give at least one")
    wanted = session.fixed_batch or min(options.batch_size or _ROWS, given.pool.size)
    rows = tuple(index % given.pool.size for index in range(wanted))
    source = f"{given.name}, {len(set(rows))} of {given.pool.size} samples"
    return Fed(given.pool.take(rows).batch(), rows, source, given.remarks)


class Seen(NamedTuple):
    """What both forwards showed of the channel."""

    in_eval: Observed | None
    in_training: Observed | None
    remarks: tuple[str, ...]


def observe(session: Session, batch: Batch, layer: NormLayer, channel: int, seed: int) -> Seen:
    """Raises RunError when the model raises in eval; what it raises in training mode is a remark."""
    said: list[str] = []
    first = session.run(batch, Mode.INFERENCE, Watch.MOMENTS, seed=seed)
    in_eval = _observed(first, layer, channel, "eval", batch.size)
    in_training = None
    if Mode.TRAINING_NORMS in session.modes:
        try:
            trained = session.run(batch, Mode.TRAINING_NORMS, Watch.MOMENTS, seed=seed)
            in_training = _observed(trained, layer, channel, "training", batch.size)
        except (RunError, NotPossibleError) as error:
            said.append(f"in training mode: {error}")
    else:
        said.append("its norms cannot be put into training mode here: the left column is what runs")
    if in_eval is None:
        ran = sorted({call.layer for call in first.norm_calls if call.layer})
        if layer.name in ran:
            said.append("the values that this kind of norm receives are not recorded, only those of batch norms")
        else:
            said.append(f"the layer did not run on these inputs; {len(ran)} other norm layers did")
    elif in_eval.calls > 1:
        said.append(f"the layer runs {in_eval.calls} times in one forward: this is what it receives the first time")
    return Seen(in_eval, in_training, tuple(said))


def _observed(trace: Trace, layer: NormLayer, channel: int, mode: str, samples: int) -> Observed | None:
    calls = [call for call in trace.norm_calls if call.layer == layer.name]
    if not calls or channel >= calls[0].channels:
        return None
    moments = _moments(calls[0], channel)
    if moments is None:
        return None
    mean, biased = moments
    call, count = calls[0], calls[0].values_per_statistic
    return Observed(
        mode=mode,
        values=count,
        per_sample=max(1, call.values_per_sample if call.sample_mean is not None else count // samples),
        mean=mean,
        biased=biased,
        unbiased=biased * count / (count - 1) if count > 1 else None,
        sample_mean=None if call.sample_mean is None else call.sample_mean[:, channel],
        sample_var=None if call.sample_var is None else call.sample_var[:, channel],
        uses_batch=call.uses_batch,
        calls=len(calls),
    )


def _moments(call: NormCall, channel: int) -> tuple[float, float] | None:
    """Mean and biased variance of all that the norm received in its first call."""
    if call.sample_mean is not None and call.sample_var is not None:
        means, variances = call.sample_mean[:, channel], call.sample_var[:, channel]
        mean = float(means.mean())
        return mean, float((variances + (means - mean) ** 2).mean())
    if call.batch_mean is not None and call.batch_var is not None:
        return float(call.batch_mean[channel]), float(call.batch_var[channel])
    return None
