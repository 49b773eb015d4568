"""What a layer receives against what is stored for it: the shift of the mean, the ratio of the variances."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bnaudit.gap_limits import Evidence, StatisticsLimits, moved, used_in_eval
from bnaudit.html.charts.drawing import along_layers
from bnaudit.html.charts.limits import drawn, errors_text, statistics_limits
from bnaudit.html.charts.picture import Mark, Picture, Standing, Table, legend, named, shown
from bnaudit.html.charts.scales import Scale, logarithmic
from bnaudit.measurement import LayerStatistics
from bnaudit.results import Audit
from bnaudit.terminal.amounts import number, plural

ORDER = "in order of execution"
_LARGEST_LOG = 40.0
_STANDINGS = {Evidence.WITHIN: Standing.WITHIN, Evidence.BEYOND: Standing.BEYOND, Evidence.TOO_FEW: Standing.OPEN}
_WORDS = {
    Standing.WITHIN: "within the limit, or no more than sampling explains",
    Standing.BEYOND: "beyond the limit, and more than sampling explains",
    Standing.OPEN: "beyond the limit, from too few samples to tell",
    Standing.UNUSED: "not used in eval mode",
}


def statistics_pictures(audit: Audit, prefix: str) -> Iterable[Picture]:
    """The two pictures, where a run measured layers."""
    found = sorted(audit.measured.of(LayerStatistics), key=lambda each: each.position) if audit.measured else []
    if audit.measured and found:
        used = {each.layer for each in used_in_eval(audit.measured)}
        synthetic = " The inputs were synthetic: sizes say little." if audit.measured.synthetic else ""
        limits = statistics_limits(audit.limits)
        yield _mean(found, used, limits, prefix, synthetic)
        yield _variance(found, used, limits, prefix, synthetic)


def _mean(found: list[LayerStatistics], used: set[str], limits: StatisticsLimits, prefix: str, remark: str) -> Picture:
    limit, errors = limits.mean_shift, errors_text(limits.errors)
    marks = tuple(
        Mark(
            each.layer,
            each.mean_shift,
            _standing(each, used, moved(each, limits).mean),
            f"mean {number(each.mean_shift)} stored sd off, {errors} {number(limits.errors * each.mean_error)}",
            error=limits.errors * each.mean_error,
        )
        for each in found
    )
    title = "Mean: received against stored"
    summary = _summary(marks, f"the limit of {number(limit)}", "shift", " stored sd")
    scale = logarithmic([limit, *(mark.value for mark in marks)], [m.error for m in marks if m.error])
    rows = tuple(
        (each.position + 1, each.layer or "(root)", each.mean_shift, each.mean_error, mark.standing.value, each.samples)
        for each, mark in zip(found, marks, strict=True)
    )
    text = (
        "Each mark is a layer in order of execution; its height is how far the mean of what it receives is from its "
        "running mean, in stored standard deviations (root mean square over channels), and the short line is what "
        f"{errors} {_explain(limits)}.{remark}"
    )
    table = Table(("position", "layer", "mean shift (stored sd)", "standard error", "standing", "samples"), rows)
    return _picture("mean-shift", prefix, title, text, marks, scale, limit, summary, table)


def _variance(
    found: list[LayerStatistics], used: set[str], limits: StatisticsLimits, prefix: str, remark: str
) -> Picture:
    limit, errors = limits.variance_ratio, errors_text(limits.errors).replace("standard ", "")
    marks = tuple(
        Mark(
            each.layer,
            each.variance_ratio,
            _standing(each, used, moved(each, limits).variance),
            f"variance off by a factor {number(each.variance_ratio)}",
            error=_factor(each.log_variance_error, limits.errors),
        )
        for each in found
    )
    title = "Variance: received against stored"
    summary = _summary(marks, f"the limit of {number(limit)}", "factor", "")
    scale = logarithmic([limit, *(mark.value for mark in marks)], [1.0, *(m.error for m in marks if m.error)])
    rows = tuple(
        (each.position + 1, each.layer or "(root)", each.variance_ratio, each.log_variance_error, mark.standing.value)
        for each, mark in zip(found, marks, strict=True)
    )
    text = (
        "The height is the factor between the variance of what a layer receives and its running variance, either way "
        f"(median over channels); 1 is equal, and the short line is what {errors} {_explain(limits)}.{remark}"
    )
    table = Table(("position", "layer", "variance ratio", "error of its logarithm", "standing"), rows)
    return _picture("variance-ratio", prefix, title, text, marks, scale, limit, summary, table)


def _picture(
    key: str,
    prefix: str,
    title: str,
    text: str,
    marks: tuple[Mark, ...],
    scale: Scale,
    limit: float,
    summary: str,
    table: Table,
) -> Picture:
    """The marks along the layers with the limit that they are held to."""
    line = drawn(limit, f"limit {limit:g}")
    drawing = along_layers(f"{prefix}-{key}", f"{title}. {summary}", marks, scale, order=ORDER, limit=line)
    return Picture(key, title, text, drawing, summary, legend(marks, _WORDS), table)


def _standing(each: LayerStatistics, used: set[str], evidence: Evidence) -> Standing:
    return _STANDINGS[evidence] if each.layer in used else Standing.UNUSED


def _explain(limits: StatisticsLimits) -> str:
    return "explains" if limits.errors == 1 else "explain"


def _factor(error: float | None, errors: float) -> float | None:
    """What so many errors of the logarithm are as a factor; None beyond what is worth drawing."""
    return math.exp(errors * error) if error is not None and errors * error < _LARGEST_LOG else None


def _summary(marks: tuple[Mark, ...], limit: str, what: str, unit: str) -> str:
    beyond, few = named(marks, Standing.BEYOND), named(marks, Standing.OPEN)
    largest = max(marks, key=lambda mark: mark.value if mark.value == mark.value else math.inf)
    text = f"{plural(len(marks), 'layer')}; largest {what} {number(largest.value)}{unit} at {shown(largest.name)}. "
    text += f"Beyond {limit}: {beyond}." if beyond else f"None is beyond {limit}."
    return f"{text} Too few samples to tell: {few}." if few else text
