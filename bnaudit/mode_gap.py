"""How far training mode (norms only) is from eval mode, and how much of it companions alone explain.

With perfect statistics the plain gap is 0.4 to 0.7 of the outputs' spread at a batch of 4 and 0.1 to 0.2 at 32: batch
statistics are noise. With two companion sets t₁ and t₂ that noise is in each alone, and in ⟨t₁ − e, t₂ − e⟩ it averages
out; what is left is systematic.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bnaudit.experiment import Experiment
from bnaudit.gap_limits import moved
from bnaudit.measurement import Gap
from bnaudit.received import layer_statistics
from bnaudit.records import replace
from bnaudit.session import Held, Mode, NormCall, NotPossibleError, Trace
from bnaudit.shifts import floating_rows, shift

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST_SAMPLES = 16
"""Below, a gap is not judged."""


def normalizes_with_batch(trace: Trace) -> bool:
    """Whether a norm took the batch's statistics: one that its model's own train() keeps in eval mode does not."""
    return any(call.kind.is_batch and call.uses_batch and call.mixes_samples is not False for call in trace.norm_calls)


def mode_gap(experiment: Experiment) -> Gap | None:
    """The gap over the anchors' floating outputs, each in its own spread; None where these do not differ."""
    one, other = experiment.training, experiment.training_swapped
    if one is None or other is None:
        return None
    parts = _parts(experiment, experiment.deciding_base, one, other)
    if not parts:
        return None
    inner, noise, plain = (sum(part[at] for part in parts) / len(parts) for at in range(3))
    rows = experiment.distinct_anchors
    pairs = tuple((row, row) for row in rows)
    against_eval = shift(experiment.deciding_base, one, experiment.axes, pairs)
    gap = Gap(
        systematic=math.sqrt(max(inner, 0.0)),
        noise=math.sqrt(noise),
        plain=math.sqrt(plain),
        bessel=None,
        samples=experiment.feed.samples,
        anchors=len(rows),
        flips=against_eval.flips,
        companion_flips=shift(one, other, experiment.axes, pairs).flips,
        decisions=against_eval.decisions,
        synthetic=experiment.feed.synthetic,
    )
    judged = is_gap(experiment, gap) and not gap.synthetic
    return replace(gap, bessel=_bessel(experiment, one)) if judged else gap


def is_gap(experiment: Experiment, gap: Gap) -> bool:
    """Beyond what companions explain, from enough samples, and with a layer whose statistics are off."""
    named = any(moved(found).proved for found in experiment.once(layer_statistics))
    return gap.systematic > gap.noise and gap.samples >= FEWEST_SAMPLES and named


def _parts(experiment: Experiment, *traces: Trace) -> list[tuple[float, float, float]]:
    """Per output ⟨t₁ − e, t₂ − e⟩, ‖t₁ − t₂‖² / 2 and ‖t₁ − e‖², divided by ‖e − mean e‖²."""
    import numpy as np

    rows, axes = experiment.distinct_anchors, experiment.axes
    found = []
    for outputs in zip(*(floating_rows(trace, axes, rows) for trace in traces), strict=False):
        e, t1, t2 = (_flat(values) for _, values in outputs)
        spread = float(((e - e.mean(axis=0)) ** 2).sum())
        if e.shape == t1.shape == t2.shape and spread > 0 and all(np.isfinite(v).all() for v in (e, t1, t2)):
            inner, noise = float(((t1 - e) * (t2 - e)).sum()), float(((t1 - t2) ** 2).sum()) / 2
            found.append((inner / spread, noise / spread, float(((t1 - e) ** 2).sum()) / spread))
    return found


def _flat(values: NDArray[np.generic]) -> NDArray[np.float64]:
    flat: NDArray[np.float64] = values.real.astype("float64").reshape(values.shape[0], -1)
    return flat


def _bessel(experiment: Experiment, one: Trace) -> float | None:
    """How far the outputs move when the batch is normalized with its unbiased variance, which is what is stored."""
    if not experiment.extras_left:
        return None
    hold = tuple(held for call in one.norm_calls if (held := _unbiased(call)) is not None)
    try:
        batch = experiment.feed.base
        name = "with unbiased variance"
        replay = experiment.extra(name, batch, Mode.TRAINING_NORMS, hold=hold, seed=experiment.seed)
    except NotPossibleError as error:
        experiment.remark(f"the part of the unbiased variance was not measured: {error}")
        return None
    parts = _parts(experiment, experiment.deciding_base, one, replay)
    return math.sqrt(2 * sum(noise for _, noise, _ in parts) / len(parts)) if parts else None


def _unbiased(call: NormCall) -> Held | None:
    count = call.values_per_statistic
    if not call.uses_batch or call.batch_mean is None or call.batch_var is None or count < 2:
        return None
    return Held(index=call.index, mean=call.batch_mean, var=call.batch_var * (count / (count - 1)))
