"""Averaged weights (EMA, SWA) carry statistics that are initial, lag, or are the raw model's.

## What it finds

A file that holds raw and averaged weights (`state_dict_ema`, `model_ema`, `n_averaged` …), in which the running
statistics of the averaged model

- are still **initial** (mean 0, variance 1) where the raw ones have moved: an average over parameters only. An error
  when the averaged layer's weights are trained, as in BN103;
- **lag**: they are the raw ones mixed with at least 5 % of the initial 0 and 1, or a snapshot of long ago (fewer than
  half the batches, and means 0.5 standard deviations or variances a factor of 2 away);
- are **bit-equal to the raw ones** although weights and biases differ by more than 5 %: the averaged network makes
  other activations, and its statistics describe the raw one's. Nearer than that it is a note.

## Why it matters

The averaged weights are those that get deployed. Statistics are buffers, and a loop over `parameters()` passes them
by; in training mode nothing shows.

## Worked arithmetic

Raw mean 20 and variance 25; the average stores 0 and 1. The activation 30:

    raw        (30 − 20) / √25 = 2
    averaged   (30 −  0) / √1  = 30

An average with decay 0.9999 that also runs over the buffers still holds 0.9999ⁿ of the initial values: after 1,000
steps 90 %, after 30,000 steps 5.0 %.

Copying the raw statistics is the documented default of `torch.optim.swa_utils.AveragedModel`, and with weights up to
5 % apart no accuracy was lost. Further apart the activations' scale moves by as much in every layer, and it multiplies.

## How to fix

Measure the statistics with the averaged weights, once, before saving:

    torch.optim.swa_utils.update_bn(loader, averaged_model)

or let the average run over buffers too:

    AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=True)

## Limits

- Raw and averaged weights in two files are not compared. Only norm tensors are read, so that "differ by 5 %" is
  measured on weights and biases of the norms (relative L2 over all layers with equal statistics).
- Norms without weight and bias show no difference: silent.
- The share of the initial values is fitted over channels; it must explain means and variances alike. The counter of
  an averaged model is itself often averaged, so a small counter alone proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bnaudit.arithmetic import PYTORCH_EPS
from bnaudit.averaged_weights import AveragedPair, averaged_pairs
from bnaudit.description import NormLayer
from bnaudit.initial_state import is_virgin, updates, was_trained
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MEASURE = "measure the statistics with the averaged weights: torch.optim.swa_utils.update_bn(loader, averaged_model)"
_AGREEMENT = 0.15
"""How far the shares fitted to means and to variances may lie apart, relative to the larger."""
_EXPLAINED = 0.9
_FEWEST_CHANNELS = 3


@rule(
    id="BN117",
    severity=Severity.WARNING,
    question=Question.BUFFERS,
    limits={"initial_share": 0.05, "mean_shift": 0.5, "variance_factor": 2.0, "affine_difference": 0.05},
)
def stale_average(case: Case) -> Iterator[Hit]:
    """One hit per layer that is initial or lags, one per part whose statistics are the raw ones."""
    pairs = list(averaged_pairs(case.subject))
    if pairs:
        import numpy as np

        with np.errstate(over="ignore", invalid="ignore"):
            found = [hit for pair in pairs for hit in _compare(pair, case.limits)]
        yield from found


def _compare(pair: AveragedPair, limits: Mapping[str, float]) -> Iterator[Hit]:
    copied = []
    for averaged, raw in pair.layers:
        if _bit_equal(averaged, raw):
            copied.append((averaged, raw))
        elif is_virgin(averaged):
            yield _initial(pair.part, averaged)
        elif not is_virgin(raw):
            yield from _lag(pair.part, averaged, raw, limits)
    yield from _copied(pair, copied, limits["affine_difference"])


def _bit_equal(averaged: NormLayer, raw: NormLayer) -> bool:
    pairs = ((averaged.mean, raw.mean), (averaged.var, raw.var))
    return all(one is not None and other is not None and bool((one == other).all()) for one, other in pairs)


def _initial(part: str, averaged: NormLayer) -> Hit:
    return Hit(
        message="averaged weights with initial statistics (mean 0, variance 1), while the raw model's have moved",
        advice=_MEASURE,
        layer=averaged.name,
        part=part,
        # What BN103 proves of one model alone is not less certain because the cause is known.
        severity=Severity.ERROR if was_trained(averaged) else Severity.WARNING,
    )


def _lag(part: str, averaged: NormLayer, raw: NormLayer, limits: Mapping[str, float]) -> Iterator[Hit]:
    share = _initial_share(averaged, raw)
    if share >= limits["initial_share"]:
        message, value, limit = "averaged statistics still hold their initial values", share, limits["initial_share"]
    elif (distance := _distance(averaged, raw, limits)) and _is_snapshot(averaged, raw):
        of_what, value, limit = distance
        message = f"averaged statistics are an old snapshot of the raw model's, in {of_what}"
    else:
        return
    yield Hit(
        message=message,
        advice=_MEASURE,
        layer=averaged.name,
        part=part,
        value=round(value, 3),
        limit=limit,
        confidence=Confidence.MEDIUM,
    )


def _is_snapshot(averaged: NormLayer, raw: NormLayer) -> bool:
    then, now = updates(averaged), updates(raw)
    return then is not None and now is not None and 2 * then < now


def _live(averaged: NormLayer, raw: NormLayer) -> tuple[NDArray[np.float64], ...] | None:
    """Means and variances (averaged, raw, averaged, raw) of the channels that can be compared."""
    mean, raw_mean, var, raw_var = averaged.mean, raw.mean, averaged.var, raw.var
    if mean is None or raw_mean is None or var is None or raw_var is None:
        return None
    import numpy as np

    live = (raw_var > PYTORCH_EPS) & (var > 0.0) & np.isfinite(mean + raw_mean + var + raw_var)
    kept = (mean[live], raw_mean[live], var[live], raw_var[live])
    return kept if kept[0].size >= _FEWEST_CHANNELS else None


def _initial_share(averaged: NormLayer, raw: NormLayer) -> float:
    """The w that fits averaged = (1 − w) · raw + w · initial to means and variances alike; 0: none does."""
    kept = _live(averaged, raw)
    if kept is None:
        return 0.0
    mean, raw_mean, var, raw_var = kept
    scale = raw_var**0.5
    of_means = _fit((mean - raw_mean) / scale, -raw_mean / scale)
    of_variances = _fit((var - raw_var) / raw_var.clip(min=1.0), (1.0 - raw_var) / raw_var.clip(min=1.0))
    larger = max(of_means, of_variances)
    return of_means if abs(of_means - of_variances) <= _AGREEMENT * larger else 0.0


def _fit(change: NDArray[np.float64], towards_initial: NDArray[np.float64]) -> float:
    """Least squares share of the way to the initial values; 0 where it leaves more than a tenth unexplained."""
    square, total = float((towards_initial**2).sum()), float((change**2).sum())
    if square == 0.0:
        return 0.0
    share = float((change * towards_initial).sum()) / square
    unexplained = float(((change - share * towards_initial) ** 2).sum())
    return share if unexplained <= (1.0 - _EXPLAINED) * total else 0.0


def _distance(averaged: NormLayer, raw: NormLayer, limits: Mapping[str, float]) -> tuple[str, float, float] | None:
    """How far the statistics are apart, and its limit: the rms mean shift in raw standard deviations, or else the
    factor between the variances; None within both limits.
    """
    kept = _live(averaged, raw)
    if kept is None:
        return None
    mean, raw_mean, var, raw_var = kept
    shift = float(((mean - raw_mean) ** 2 / raw_var).mean()) ** 0.5
    if shift > limits["mean_shift"]:
        return "standard deviations of the mean", shift, limits["mean_shift"]
    ratios = sorted((var / raw_var).tolist())
    ratio = ratios[len(ratios) // 2]
    factor = max(ratio, 1.0 / ratio)
    if factor > limits["variance_factor"]:
        return "the factor between the variances", factor, limits["variance_factor"]
    return None


def _copied(pair: AveragedPair, copied: list[tuple[NormLayer, NormLayer]], limit: float) -> Iterator[Hit]:
    difference = _affine_difference(copied)
    if not difference:
        return
    far = difference > limit
    reading = "they describe the raw model" if far else "documented behaviour"
    count = f"{len(copied)} averaged layer{'s' if len(copied) > 1 else ''}"
    yield Hit(
        message=f"copied statistics in {count}, weights {difference:.1%} apart: {reading}",
        advice=_MEASURE if far else "nothing to do: no accuracy is lost at this distance",
        part=pair.part,
        value=round(difference, 4),
        limit=limit,
        severity=Severity.WARNING if far else Severity.NOTE,
    )


def _affine_difference(pairs: list[tuple[NormLayer, NormLayer]]) -> float:
    """Relative L2 distance of weights and biases over all pairs; 0 without any, or where one is not finite (BN115)."""
    apart = size = 0.0
    for averaged, raw in pairs:
        for one, other in ((averaged.gamma, raw.gamma), (averaged.beta, raw.beta)):
            if one is not None and other is not None and one.shape == other.shape and not is_virgin(raw):
                apart += float(((one - other) ** 2).sum())
                size += float((other**2).sum())
    return (apart / size) ** 0.5 if math.isfinite(apart) and 0.0 < size < math.inf else 0.0
