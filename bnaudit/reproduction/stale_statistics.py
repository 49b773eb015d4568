"""Stored statistics that do not represent what a layer receives (BN404), whence a gap between train and eval."""

from __future__ import annotations

import math
from collections import Counter

from bnaudit.description import Carrier, NormLayer
from bnaudit.gap_limits import StatisticsLimits
from bnaudit.initial_state import LEARNS_STATISTICS, is_fresh
from bnaudit.norm_statistics import Comparison, Moments, against_stored
from bnaudit.reproduction.demonstration import Demonstration, Kind, StatisticsCase
from bnaudit.reproduction.samples import Samples
from bnaudit.reproduction.trials import Trials
from bnaudit.session import Mode, NormCall, RunError, Watch

_LIMITS = StatisticsLimits()
_EPS = 1e-5
"""PyTorch's, where a call does not say."""


def find(trials: Trials, samples: Samples, mode: Mode) -> Demonstration | None:
    """The first layer, in order of execution, whose statistics are off on the given inputs.

    All norms are in training mode, so that a layer behind the guilty one looks healthy. Rows are not left out: fewer
    samples would decide less, and the ones that look worst would be chosen.
    """
    rows = tuple(range(samples.real))
    try:
        trace = trials.run(samples.pool, rows, Mode.TRAINING_NORMS, Watch.MOMENTS)
    except RunError:
        return None
    names = {layer.name for layer in _learning(trials)}
    calls = Counter(call.layer for call in trace.norm_calls)
    for call in trace.norm_calls:
        if call.layer not in names or calls[call.layer] > 1:
            continue  # one that runs several times has several populations, and no statistics fit them all
        found = _compared(call)
        if found is not None and _is_off(found):
            return _demonstration(trials, samples, rows, call, found, trace.compute_dtype)
    return None


def cannot(trials: Trials, samples: Samples) -> str:
    """What it would take to look; "" when it can be looked at."""
    if trials.session.carrier is not Carrier.MODULE or Mode.TRAINING_NORMS not in trials.session.modes:
        return "a PyTorch module"
    if not _learning(trials) or is_fresh(_learning(trials)):
        return "a trained model with batch norms"
    fewest = int(_LIMITS.variance_samples)
    return f"{fewest} different samples of your own" if samples.real < fewest else ""


def _learning(trials: Trials) -> list[NormLayer]:
    return [layer for layer in trials.session.part.layers if layer.kind in LEARNS_STATISTICS]


def _compared(call: NormCall) -> Comparison | None:
    if call.sample_mean is None or call.sample_var is None or call.stored_mean is None or call.stored_var is None:
        return None
    moments = Moments(call.sample_mean, call.sample_var, call.values_per_sample)
    return against_stored(moments, call.stored_mean, call.stored_var, call.eps or _EPS)


def _is_off(found: Comparison) -> bool:
    """Beyond BN404's limits and its errors."""
    if not found.live:
        return False
    shifted = found.shift > _LIMITS.mean_shift and found.shift > _LIMITS.errors * found.shift_error
    error = found.log_ratio_error
    spread = error is not None and found.log_ratio > _LIMITS.errors * error
    return shifted or (spread and found.log_ratio > math.log(_LIMITS.variance_ratio))


def _demonstration(
    trials: Trials, samples: Samples, rows: tuple[int, ...], call: NormCall, found: Comparison, dtype: str
) -> Demonstration:
    assert call.layer is not None
    return Demonstration(
        rule="BN404",
        kind=Kind.STATISTICS,
        mode=Mode.INFERENCE,
        pool=samples.pool.take(rows),
        labels=tuple(samples.labels[row] for row in rows),
        batches=(rows,),
        seed=trials.seed,
        layers=(call.layer,),
        statistics=StatisticsCase(
            layer=call.layer,
            eps=call.eps or _EPS,
            shift=found.shift,
            ratio=math.exp(found.log_ratio),
            shift_limit=_LIMITS.mean_shift,
            ratio_limit=_LIMITS.variance_ratio,
            worst=found.worst[:4],
        ),
        compute_dtype=dtype,
    )
