"""When a layer's statistics do not represent what it receives: the limits of BN404 and BN407 and their conditions.

BN403 requires that BN404 names a layer, so both ask here. The sampling unit is the sample, not the value: within
one image neighbouring values are alike, and a standard error from all N·H·W values finds faults in healthy nets.
"""

from __future__ import annotations

import math
from enum import Enum

from bnaudit.description import Description
from bnaudit.initial_state import is_absorbed
from bnaudit.measurement import EvalNorm, LayerStatistics, Measured, ReusedNorm
from bnaudit.records import Record


class StatisticsLimits(Record):
    """BN404's."""

    mean_shift: float = 0.5
    """Stored standard deviations, root mean square over live channels."""
    variance_ratio: float = 2.0
    """Measured over stored, either way, median over live channels."""
    errors: float = 4.0
    """Standard errors, of the mean and of the logarithm of the ratio."""
    mean_samples: float = 8
    """The fewest that decide on the mean."""
    variance_samples: float = 16


class ReuseLimits(Record):
    """BN407's, between the populations that one layer normalizes."""

    mean_difference: float = 0.5
    """Pooled standard deviations, root mean square over channels."""
    variance_ratio: float = 2.0
    errors: float = 4.0


_STATISTICS, _REUSE = StatisticsLimits(), ReuseLimits()


class Evidence(Enum):
    """What a number says about its limit."""

    WITHIN = "within its limit, or no more than its error explains"
    BEYOND = "beyond its limit and more than its error explains"
    TOO_FEW = "beyond its limit, from too few samples to tell"


class Moved(Record):
    """A layer's measured statistics against the stored ones."""

    mean: Evidence
    variance: Evidence

    @property
    def proved(self) -> bool:
        """One of them is off."""
        return Evidence.BEYOND in (self.mean, self.variance)

    @property
    def open(self) -> bool:
        """None is proved to be off, and one may be."""
        return not self.proved and Evidence.TOO_FEW in (self.mean, self.variance)


def moved(found: LayerStatistics, limits: StatisticsLimits = _STATISTICS) -> Moved:
    """Whether the root mean square of the mean's shift over live channels, or the median of the variance's log
    ratio, is beyond its limit and its errors. A maximum over channels never decides.
    """
    if not found.live:
        return Moved(mean=Evidence.WITHIN, variance=Evidence.WITHIN)
    few_means, few_variances = found.samples < limits.mean_samples, found.samples < limits.variance_samples
    ratio, error = _log_limit(limits.variance_ratio), found.log_variance_error
    return Moved(
        mean=_weigh(found.mean_shift, limits.mean_shift, found.mean_error, limits.errors, few_means),
        variance=_weigh(found.log_variance, ratio, error, limits.errors, few_variances),
    )


def used_in_eval(measured: Measured) -> tuple[LayerStatistics, ...]:
    """The layers whose stored statistics eval mode uses; those of one that uses the batch anyway are no one's."""
    mixing = [norm for norm in measured.of(EvalNorm) if norm.mixes is not False]
    unused = {norm.layer if norm.layer is not None else norm.place.module for norm in mixing}
    return tuple(found for found in measured.of(LayerStatistics) if found.layer not in unused)


def were_absorbed(subject: Description, measured: Measured) -> bool:
    """Whether the batch norms that were run seem to hold their statistics in weight and bias (BN103).

    What is stored is then no statistic, and training mode is not what the model was trained in.
    """
    layers = [layer for part in subject.parts if part.name == measured.part for layer in part.layers]
    return is_absorbed([layer for layer in layers if layer.kind.is_batch])


def populations_differ(found: ReusedNorm, limits: ReuseLimits = _REUSE) -> bool:
    """Whether the populations that one layer normalizes are too different for one set of statistics."""
    mean = _weigh(found.mean_difference, limits.mean_difference, found.mean_error, limits.errors)
    log_ratio = abs(math.log(found.variance_ratio)) if found.variance_ratio > 0 else math.inf
    variance = _weigh(log_ratio, _log_limit(limits.variance_ratio), found.variance_error, limits.errors)
    return Evidence.BEYOND in (mean, variance)


def _log_limit(ratio: float) -> float:
    """A ratio is taken either way, so that none is below 1, and no limit can be."""
    return math.log(max(ratio, 1.0))


def _weigh(value: float, limit: float, error: float | None, errors: float, too_few: bool = False) -> Evidence:
    if not value > limit:
        return Evidence.WITHIN
    if too_few or error is None:
        return Evidence.TOO_FEW
    return Evidence.BEYOND if value > errors * error else Evidence.WITHIN
