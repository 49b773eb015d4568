"""One batch norm runs several times in a forward, on populations that differ.

## What it finds

The same layer is called more than once per forward. It is a warning when what the calls receive differs so much that
one mean and one variance cannot describe it: over the channels, by more than 0.5 pooled standard deviations in the
mean, or by a factor of more than 2 in the variance, and by more than 4 errors (the sampling unit is the sample).
Smaller differences are a note.

## Why it matters

In training each call normalizes with its own statistics, so everything fits. The running statistics are an average over
all calls, and in eval mode every call gets that average: right for none of them.

## Worked arithmetic

One channel, called on populations A (mean 0, variance 1) and B (mean 4, variance 1) in turn. The running mean tends to
the middle, 2 (the last call weighs a little more), the running variance to 1, for it averages the variances within:

    in training   a typical value of A, 0    →  (0 − 0) / √1 =  0
    in eval       the same value             →  (0 − 2) / √1 = −2

## How to fix

One norm for each use; the convolutions may stay shared:

    self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(64) for _ in levels])
    features = [norm(self.conv(x)) for norm, x in zip(self.norms, pyramid)]

or a norm that keeps no statistics (GroupNorm).

## Limits

- On synthetic inputs it is a note: the sizes are not evidence.
- Calls on populations that are alike (two views, two frames) are healthy; the counter then grows twice per step, which
  BN112 shows.
- A layer called once on a mixture of populations looks like one population: nothing is said here.
- The smaller the number of samples, the larger the errors: with very few, it stays a note.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.gap_limits import ReuseLimits, populations_differ
from bnaudit.measurement import ReusedNorm
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_DEFAULTS = ReuseLimits()
_OWN_NORMS = "give each use a norm of its own (shared convolutions may stay), or use GroupNorm"


@rule(
    id="BN407",
    severity=Severity.WARNING,
    question=Question.GAP,
    limits={
        "mean_difference": _DEFAULTS.mean_difference,
        "variance_ratio": _DEFAULTS.variance_ratio,
        "errors": _DEFAULTS.errors,
    },
    needs=("train_eval_gap",),
)
def reused_norm_layer(case: Case) -> Iterator[Hit]:
    """One hit per layer that runs more than once."""
    if case.measured is None:
        return
    limits = ReuseLimits(
        mean_difference=case.limits["mean_difference"],
        variance_ratio=case.limits["variance_ratio"],
        errors=case.limits["errors"],
    )
    for found in case.measured.of(ReusedNorm):
        if found.calls > 1:
            yield _hit(found, limits, populations_differ(found, limits) and not found.synthetic)


def _hit(found: ReusedNorm, limits: ReuseLimits, apart: bool) -> Hit:
    factor = max(found.variance_ratio, 1 / found.variance_ratio) if found.variance_ratio > 0 else math.inf
    by_mean = found.mean_difference > limits.mean_difference or factor <= limits.variance_ratio
    inputs = ", on synthetic inputs" if found.synthetic else ""
    return Hit(
        message=f"it runs {found.calls} times per forward, on inputs whose means differ by "
        f"{found.mean_difference:.2g} sd and whose variances by a factor {found.variance_ratio:.3g}{inputs}",
        advice=_OWN_NORMS,
        layer=found.layer,
        value=float(f"{found.mean_difference if by_mean else found.variance_ratio:.3g}"),
        limit=limits.mean_difference if by_mean else limits.variance_ratio,
        severity=Severity.WARNING if apart else Severity.NOTE,
    )
