"""A layer's stored statistics are not those of what it receives.

## What it finds

All norms are put in training mode and nothing else. Then each batch norm receives what a well-normalized network
would give it, and its stored mean and variance are compared with those of its input, so that the guilty layer shows
alone and not every layer behind it. Over the live channels (stored variance above epsilon)

- the root mean square of the mean's shift is above 0.5 stored standard deviations and above 4 standard errors, or
- the median |log of the variance ratio| is above ln 2 and above 4 jackknife errors.

The sampling unit is the sample: neighbouring pixels are alike, so the standard error is the spread of per-sample
means over √N. The worst channels are listed; a maximum over channels never decides.

## Why it matters

In eval mode the layer normalizes with statistics of something else. The loss in training shows nothing, because the
batch is used there.

## Worked arithmetic

One channel, stored mean 2 and variance 4. Sixteen samples have per-sample means with mean 4.4 and standard deviation
0.8; the variance of all their values is 1.

    shift            (4.4 − 2) / √4      = 1.2 stored sd    above 0.5
    standard error   0.8 / √16 / √4      = 0.1              1.2 is 12 of them, above 4
    variance         |ln(1 / 4)| = 1.386                    above ln 2 = 0.693, a factor 4

## How to fix

Measure the statistics again on training data, preprocessed as for training:

    torch.optim.swa_utils.update_bn(training_loader, model)

When the first layer alone is off, look at the input first: another mean and standard deviation in the
preprocessing, RGB against BGR, 0–255 against 0–1.

## Limits

- It needs your inputs (`--inputs`): on synthetic ones every size is a note.
- At least 8 samples for the mean and 16 for the variance; fewer leave the verdict open when a layer looks guilty.
- Inputs of another kind than the training data (one class, one camera) are off by right: then the model is used on
  what it was not made for.
- A norm that uses the batch in eval mode too has no use for what is stored: BN301, BN401 or BN207 tells it.
- Statistics that were absorbed into weight and bias in every layer (mean 0, one variance near 1, no counters) are not
  those of any input: one note, and the verdict stays open.
- Initial, immature and broken statistics are told by BN103 to BN107, one layer for several populations by BN407.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.gap_limits import Evidence, Moved, StatisticsLimits, moved, populations_differ, used_in_eval, were_absorbed
from bnaudit.measurement import LayerStatistics, ReusedNorm
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_DEFAULTS = StatisticsLimits()
_MEASURE_AGAIN = "measure the statistics again on training data: torch.optim.swa_utils.update_bn(loader, model)"
_LOOK_AT_INPUT = "preprocess inputs as in training (mean, scale, channel order); else measure the statistics again"
_GIVE_INPUTS = "give real inputs: --inputs"
_MORE = "give more samples: --inputs with at least 16, and --batch-size"


@rule(
    id="BN404",
    severity=Severity.WARNING,
    question=Question.GAP,
    limits={
        "mean_shift": _DEFAULTS.mean_shift,
        "variance_ratio": _DEFAULTS.variance_ratio,
        "errors": _DEFAULTS.errors,
        "mean_samples": _DEFAULTS.mean_samples,
        "variance_samples": _DEFAULTS.variance_samples,
    },
    needs=("train_eval_gap",),
    yields_to=("BN103", "BN104", "BN105", "BN106", "BN107"),
)
def unrepresentative_statistics(case: Case) -> Iterator[Hit]:
    """One hit per layer, worst first among the channels."""
    if case.measured is None:
        return
    layers = used_in_eval(case.measured)
    reused = {each.layer for each in case.measured.of(ReusedNorm) if populations_differ(each)}
    limits = _limits(case)
    judged = [(found, moved(found, limits)) for found in layers if found.layer not in reused]
    guilty = [found for found, verdict in judged if verdict.proved]
    if guilty and were_absorbed(case.subject, case.measured):
        yield _absorbed(case, guilty)
        return
    input_moved = len(layers) > 1 and [found.position for found in guilty] == [0]
    for found, verdict in judged:
        if verdict.proved:
            yield _hit(case, found, verdict, input_moved)
        elif verdict.open and not found.synthetic:
            yield _too_few(case, found, verdict)


def _limits(case: Case) -> StatisticsLimits:
    return StatisticsLimits(
        mean_shift=case.limits["mean_shift"],
        variance_ratio=case.limits["variance_ratio"],
        errors=case.limits["errors"],
        mean_samples=case.limits["mean_samples"],
        variance_samples=case.limits["variance_samples"],
    )


def _hit(case: Case, found: LayerStatistics, verdict: Moved, input_moved: bool) -> Hit:
    reading = ": alone of all layers, so the input distribution moved" if input_moved and not found.synthetic else ""
    advice = _LOOK_AT_INPUT if input_moved else _MEASURE_AGAIN
    by_mean = verdict.mean is Evidence.BEYOND
    return Hit(
        message=f"{_off(found, verdict)}{', on synthetic inputs' if found.synthetic else ''}{reading}",
        advice=_GIVE_INPUTS if found.synthetic else advice,
        layer=found.layer,
        value=_three(found.mean_shift if by_mean else found.variance_ratio),
        limit=case.limits["mean_shift" if by_mean else "variance_ratio"],
        channels=found.worst[:16],
        severity=Severity.NOTE if found.synthetic else Severity.WARNING,
    )


def _absorbed(case: Case, found: list[LayerStatistics]) -> Hit:
    return Hit(
        message="mean 0 and variance 1 everywhere are not what these layers receive: absorbed into weight and bias, "
        "or never stored",
        advice="compare it with what it was made from: bnaudit compare",
        part=case.measured.part if case.measured is not None else "",
        value=len(found),
        severity=Severity.NOTE,
        undecided="mean 0 and variance 1 everywhere are no statistics to hold against inputs",
    )


def _too_few(case: Case, found: LayerStatistics, verdict: Moved) -> Hit:
    by_mean = verdict.mean is Evidence.TOO_FEW
    return Hit(
        message=f"{_off(found, verdict)}, from {found.samples} samples: too few to tell",
        advice=_MORE,
        layer=found.layer,
        value=_three(found.mean_shift if by_mean else found.variance_ratio),
        limit=case.limits["mean_shift" if by_mean else "variance_ratio"],
        channels=found.worst[:16],
        severity=Severity.NOTE,
        undecided=f"{found.samples} samples are too few to judge the statistics of a layer that looks off",
    )


def _off(found: LayerStatistics, verdict: Moved) -> str:
    parts = []
    if verdict.mean is not Evidence.WITHIN:
        parts.append(f"mean off by {found.mean_shift:.3g} stored sd (standard error {found.mean_error:.2g})")
    if verdict.variance is not Evidence.WITHIN:
        parts.append(f"variance off by a factor {found.variance_ratio:.3g}")
    return "what it receives is not what is stored: " + ", ".join(parts)


def _three(value: float) -> float:
    return float(f"{value:.3g}")
