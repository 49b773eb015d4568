"""What the batch norms of a model received while all of them were in training mode, sample by sample.

There a guilty layer shows alone: its successors get inputs that the batch has normalized. On eval inputs, or with
layers switched one at a time, the layers behind it look guilty, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.description import NormLayer
from bnaudit.experiment import Experiment
from bnaudit.initial_state import LEARNS_STATISTICS, is_fresh
from bnaudit.measurement import LayerStatistics, ReusedNorm
from bnaudit.norm_statistics import Comparison, Moments, against_stored, between_populations, joined, stacked
from bnaudit.session import NormCall, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_EPS = 1e-5
"""Of torch.nn.BatchNorm and of ONNX, where a call does not say."""


class Received(NamedTuple):
    """One layer's inputs in the two training forwards."""

    layer: str
    position: int
    """Among the batch norms in order of execution."""
    first: NormCall
    populations: tuple[Moments, ...]
    """One per call of the layer in one forward, over the samples of both forwards."""


def received(experiment: Experiment) -> list[Received]:
    """Every batch norm that used the batch and whose samples could be told apart, in order of execution."""
    one, other = experiment.training, experiment.training_swapped
    if one is None:
        return []
    forwards = [(one, _own_rows(experiment))]
    if other is not None and other.norm_calls:
        forwards.append((other, _new_rows(experiment)))
    size = experiment.feed.base.size
    owners = _owners(experiment.session.part.layers)
    grouped: dict[str, list[NormCall]] = {}
    for call in one.norm_calls:
        if call.kind.is_batch and call.uses_batch:
            layer = call.layer if call.layer is not None else call.place.module
            grouped.setdefault(owners.get(layer, layer), []).append(call)
    found = []
    for position, (layer, calls) in enumerate(grouped.items()):
        populations = [population for call in calls if (population := _population(call, forwards, size)) is not None]
        if len(populations) == len(calls):
            found.append(Received(layer, position, calls[0], tuple(populations)))
    return found


def _owners(layers: Sequence[NormLayer]) -> dict[str, str]:
    """For every node of a graph the first one with the same stored statistics: in the model they are one layer."""
    first: dict[tuple[str, str], str] = {}
    return {
        layer.name: first.setdefault((layer.running_mean.name, layer.running_var.name), layer.name)
        for layer in layers
        if layer.running_mean is not None and layer.running_var is not None
    }


def layer_statistics(experiment: Experiment) -> list[LayerStatistics]:
    """Stored against received statistics, where any are stored; a model that was never trained stores none."""
    if never_trained(experiment):
        return []
    found = []
    for entry in experiment.once(received):
        mean, var = entry.first.stored_mean, entry.first.stored_var
        if mean is not None and var is not None:
            found.append(_statistics(experiment, entry, mean, var))
    return found


def never_trained(experiment: Experiment) -> bool:
    """Whether all batch norms that update statistics hold what they were built with."""
    learning = [layer for layer in experiment.session.part.layers if layer.kind in LEARNS_STATISTICS]
    return bool(learning) and is_fresh(learning)


def reused_norms(experiment: Experiment) -> list[ReusedNorm]:
    """The layers that ran several times in one forward, by the pair of populations that differs most."""
    return [_reused(experiment, entry) for entry in experiment.once(received) if len(entry.populations) > 1]


def _own_rows(experiment: Experiment) -> list[int]:
    """Rows of the base with different samples: one of two copies is left out."""
    copy = experiment.feed.copy
    return [row for row in range(experiment.feed.base.size) if copy is None or row != max(copy)]


def _new_rows(experiment: Experiment) -> list[int]:
    """Rows of the swapped batch whose samples the base does not hold."""
    kept = {*experiment.feed.base.anchors, *(experiment.feed.copy or ())}
    return [row for row in range(experiment.feed.base.size) if row not in kept]


def _population(call: NormCall, forwards: Sequence[tuple[Trace, list[int]]], size: int) -> Moments | None:
    parts = []
    for trace, rows in forwards:
        same = next((entry for entry in trace.norm_calls if entry.index == call.index), None)
        moments = _per_sample(same, size) if same is not None else None
        if moments is None:
            return None
        if rows:
            parts.append(Moments(moments.mean[rows], moments.var[rows], moments.values))
    return stacked(parts)


def _per_sample(call: NormCall, size: int) -> Moments | None:
    """The call's moments with one row per sample of the batch; several rows of one sample stand together."""
    mean, var = call.sample_mean, call.sample_var
    if mean is None or var is None or not size or mean.shape[0] % size or not mean.shape[0]:
        return None
    per = mean.shape[0] // size
    if per == 1:
        return Moments(mean, var, call.values_per_sample)
    rows, spread = mean.reshape(size, per, -1), var.reshape(size, per, -1)
    own = rows.mean(axis=1)
    return Moments(own, (spread + (rows - own[:, None]) ** 2).mean(axis=1), call.values_per_sample)


def _statistics(
    experiment: Experiment, entry: Received, mean: NDArray[np.float64], var: NDArray[np.float64]
) -> LayerStatistics:
    moments = joined(entry.populations)
    found = against_stored(moments, mean, var, _eps(entry.first))
    samples, widened = _samples(experiment, moments)
    return LayerStatistics(
        layer=entry.layer,
        position=entry.position,
        samples=samples,
        channels=int(moments.mean.shape[1]),
        live=found.live,
        mean_shift=found.shift,
        mean_error=found.shift_error * widened,
        variance_ratio=math.exp(found.log_ratio),
        log_variance=found.log_ratio,
        log_variance_error=_widened(found, widened),
        worst=found.worst,
        worst_shift=found.worst_shift,
        synthetic=experiment.feed.synthetic,
    )


def _reused(experiment: Experiment, entry: Received) -> ReusedNorm:
    eps = _eps(entry.first)
    pairs = [
        between_populations(one, other, eps)
        for at, one in enumerate(entry.populations)
        for other in entry.populations[at + 1 :]
    ]
    by_mean, by_var = max(pairs, key=lambda p: p.shift), max(pairs, key=lambda p: p.log_ratio)
    samples, widened = _samples(experiment, entry.populations[0])
    return ReusedNorm(
        layer=entry.layer,
        calls=len(entry.populations),
        mean_difference=by_mean.shift,
        mean_error=by_mean.shift_error * widened,
        variance_ratio=math.exp(by_var.log_ratio),
        variance_error=_widened(by_var, widened),
        samples=samples,
        synthetic=experiment.feed.synthetic,
    )


def _samples(experiment: Experiment, moments: Moments) -> tuple[int, float]:
    """How many different samples there are, and what errors grow by when some rows held the same one."""
    rows = int(moments.mean.shape[0])
    samples = max(1, min(rows, experiment.feed.samples))
    return samples, math.sqrt(rows / samples)


def _widened(found: Comparison, factor: float) -> float | None:
    return found.log_ratio_error * factor if found.log_ratio_error is not None else None


def _eps(call: NormCall) -> float:
    return call.eps if call.eps is not None else DEFAULT_EPS
