"""What the patterns of a log leave possible: companions, randomness or history; likeliest first, where it can be told.

One cause alone is named only where something rules the others out. Everything else stays in the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.diagnosis import LogEvidence
from bnaudit.request_log import wording
from bnaudit.request_log.pairs import Pairs, Proofs, paired, proofs
from bnaudit.request_log.patterns import (
    Pattern,
    common_error,
    dependence_on_size,
    deviations,
    growth_with_time,
    persistence,
)
from bnaudit.request_log.repeats import Repeats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COMPANIONS, RANDOMNESS, HISTORY = "companions", "randomness", "history"
SURE = 0.004
LIKELY = 0.01
UNSUSPECTED = 0.05
"""Probabilities of a permutation test: that decides, that speaks for a cause, above which nothing is seen."""
_LASTS = 0.5
"""Share of the deviations that lasts from request to request from which on companions that drift cannot make it."""
_SHARED = 0.05
"""Share that inputs of one request have in common, of what companions make."""
_FEWEST_MOMENTS = 20
_FEWEST_OBSERVATIONS = 40
"""Requests, and observations or pairs, from which on a pattern is more than chance in a short log."""
_FEWEST_LABELS = 3
"""Inputs whose labels differ; fewer may be ties."""
_MOST_EXAMPLES = 8
_FEWEST_DIFFERING = 8
"""Inputs; in fewer, or in less than half of the repeated ones, a pattern may be there and not be seen."""


class Patterns(NamedTuple):
    """All that was tested; None: it could not be, for want of what was logged."""

    common: Pattern | None
    size: Pattern | None
    growth: Pattern | None
    lasting: Pattern | None

    @property
    def in_time(self) -> float | None:
        """Probability of the clearer of the two patterns in time, times the number of those looked at."""
        tried = [each.probability for each in (self.growth, self.lasting) if each is not None]
        return min(1.0, len(tried) * min(tried)) if tried else None

    @property
    def moments(self) -> int:
        """Requests, or observations where requests were not logged, that the patterns in time rest on."""
        found = self.lasting or self.growth
        return found.rests_on if found is not None else 0

    @property
    def firmly_in_time(self) -> bool:
        """Both patterns are there, one surely, over enough requests: chance makes one of them in a short log."""
        tried = [each.probability for each in (self.growth, self.lasting) if each is not None]
        sure = self.in_time is not None and self.in_time <= SURE and max(tried) <= UNSUSPECTED
        return sure and self.moments >= _FEWEST_MOMENTS

    @property
    def lasts(self) -> float:
        """The larger of the two."""
        return max((each.value for each in (self.growth, self.lasting) if each is not None), default=0.0)


def judged(repeats: Repeats) -> LogEvidence:
    """The evidence of a log's repeated observations."""
    pairs = paired(repeats)
    largest = _per_input(repeats, pairs)
    differing = [key for key in range(len(repeats.names)) if largest[key] > repeats.limit]
    proved = proofs(repeats, pairs)
    reasons, needs, points = [wording.counted(repeats, differing, largest)], list[str](), tuple[str, ...]()
    deviation = deviations(repeats) if differing else None
    patterns = Patterns(None, None, None, None)
    if not differing:
        needs = wording.to_repeat(repeats, proved)
    elif (why := _within_precision(repeats, largest, differing)) is not None:
        reasons.append(why)
        needs = [wording.PRECISION if not repeats.is_labels else wording.SCORES]
    else:
        assert deviation is not None
        patterns = Patterns(
            common_error(repeats, deviation),
            dependence_on_size(repeats, deviation),
            growth_with_time(repeats, pairs),
            persistence(repeats, deviation),
        )
        widely = len(differing) >= max(_FEWEST_DIFFERING, len(repeats.names) / 2)
        points, why_so = _causes(repeats, proved, patterns, widely)
        reasons += why_so
        needs = wording.needs(repeats, points)
    shown = sorted(differing, key=lambda key: -largest[key])[:_MOST_EXAMPLES]
    return LogEvidence(
        observations=repeats.total,
        inputs=repeats.inputs,
        repeated=len(repeats.names),
        differing=len(differing),
        spread=float(largest.max(initial=0.0)) * repeats.scale,
        limit=repeats.limit * repeats.scale if not repeats.is_labels else 0.0,
        scatter_by_size=_scatter(repeats),
        common_error=None if patterns.common is None else patterns.common.value,
        points_to=points,
        reasons=tuple(reasons),
        needs=tuple(needs),
        examples=tuple(repeats.names[key] for key in shown),
    )


def _per_input(repeats: Repeats, pairs: Pairs) -> NDArray[np.float64]:
    import numpy as np

    largest = np.zeros(len(repeats.names))
    np.maximum.at(largest, repeats.owner[pairs.one], pairs.largest)
    return largest


def _within_precision(repeats: Repeats, largest: NDArray[np.float64], differing: list[int]) -> str | None:
    """Why the differences prove nothing, where they do not."""
    if repeats.is_labels:
        few = len(differing) < _FEWEST_LABELS
        return "So few labels differ that two best scores may be a tie, which the last digit decides." if few else None
    if float(largest.max()) <= repeats.coarse:
        return wording.as_small_as_half_precision(float(largest.max()), repeats)
    return None


def _causes(repeats: Repeats, proved: Proofs, patterns: Patterns, widely: bool) -> tuple[tuple[str, ...], list[str]]:
    """The causes that are left, likeliest first, and why. widely: enough inputs differ to miss a pattern in them."""
    if proved.same_request[1] > (1 if repeats.is_labels else 0):
        return (RANDOMNESS,), [wording.same_request(proved)]
    out, why = _ruled_out(repeats, proved)
    supported, more = _supported(patterns, out)
    out |= _unlikely(repeats, proved, patterns, supported, widely)
    left = [cause for cause in (COMPANIONS, RANDOMNESS, HISTORY) if cause not in out]
    order = [*supported, *(cause for cause in left if cause not in supported)]
    kept = tuple(dict.fromkeys(cause for cause in order if cause in left or cause in supported))
    if not supported and RANDOMNESS in kept and COMPANIONS in out:
        kept = (RANDOMNESS, *(cause for cause in kept if cause != RANDOMNESS))
    reasons = [*why, *more, *wording.unseen(patterns.common, patterns.size, patterns.in_time, supported)]
    if len(kept) > 1:
        reasons.append(wording.cannot_be_told(kept, bool(supported) or COMPANIONS in out))
    return kept, reasons


def _ruled_out(repeats: Repeats, proved: Proofs) -> tuple[set[str], list[str]]:
    """By pairs that had the same companions, or the same forward."""
    out, why = set[str](), list[str]()
    total, differing = proved.same_companions
    if differing and (repeats.sizes_logged or proved.alone[1] < differing or proved.alone[1] > 2):
        why.append(wording.same_companions_differ(proved, repeats.sizes_logged))
        out.add(COMPANIONS)
        return out, why
    equal = proved.same_companions[0] + proved.same_request[0]
    others, apart = proved.other_companions
    if total + proved.same_request[0] and not differing and others:
        chance = (1 - apart / others) ** equal
        if equal >= 2 and chance < LIKELY:
            why.append(wording.same_companions_agree(equal, apart, others))
            out.add(RANDOMNESS)
    return out, why


def _supported(patterns: Patterns, out: set[str]) -> tuple[list[str], list[str]]:
    """Causes whose own pattern is there."""
    found, why = list[str](), list[str]()
    in_time, common, size = patterns.in_time, patterns.common, patterns.size
    if in_time is not None and in_time <= SURE:
        found.append(HISTORY)
        why.append(wording.lasting(patterns.growth, patterns.lasting))
    if COMPANIONS in out:
        return found, why
    if size is not None and size.probability <= LIKELY / 2:
        found.append(COMPANIONS)
        why.append(wording.falls_with_size(size))
    if common is not None and common.probability <= LIKELY / 2 and common.value >= _SHARED:
        why.append(wording.in_common(common, HISTORY in found))
        if not found:
            found.append(COMPANIONS)
    return found, why


def _unlikely(repeats: Repeats, proved: Proofs, patterns: Patterns, supported: list[str], widely: bool) -> set[str]:
    """Causes that would have shown, and did not."""
    out = set[str]()
    in_time, common, size = patterns.in_time, patterns.common, patterns.size
    seen = [each for each in (common, size) if each is not None and each.rests_on >= _FEWEST_OBSERVATIONS]
    sure = any(each.probability <= SURE for each in seen)
    if supported and (sure or patterns.firmly_in_time):
        out.add(RANDOMNESS)
    if widely and in_time is not None and in_time > UNSUSPECTED and patterns.moments >= _FEWEST_MOMENTS:
        out.add(HISTORY)
    if supported == [HISTORY] and patterns.firmly_in_time and patterns.lasts >= _LASTS and repeats.sizes is not None:
        out.add(COMPANIONS)
    bounded = common is not None and common.value + 3 * common.error < 2 * _SHARED
    if (
        widely
        and not supported
        and bounded
        and not repeats.is_labels
        and (size is None or size.probability > UNSUSPECTED)
    ):
        out.add(COMPANIONS)
    if proved.alone[1]:
        out |= {COMPANIONS} if repeats.sizes_logged else set()
    return out - set(supported)


def _scatter(repeats: Repeats) -> tuple[tuple[int, int, float], ...]:
    """Root mean square deviation from the mean of the same input at the same batch size, which is 0 if all is repeated
    exactly; in the scores' unit."""
    import numpy as np

    if repeats.sizes is None:
        return ()
    found = []
    for size in np.unique(repeats.sizes[repeats.sizes > 0]).tolist():
        inside = np.flatnonzero(repeats.sizes == size)
        squares, free = 0.0, 0
        for key in np.unique(repeats.owner[inside]).tolist():
            values = repeats.values[inside[repeats.owner[inside] == key]]
            if len(values) > 1:
                squares += float(np.nansum((values - np.nanmean(values, axis=0)) ** 2)) / values.shape[1]
                free += len(values) - 1
        if free:
            found.append((int(size), len(inside), float(np.sqrt(squares / free)) * repeats.scale))
    return tuple(found)
