"""The sentences of a log's evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bnaudit.request_log.pairs import Proofs
from bnaudit.request_log.patterns import PERMUTATIONS, Pattern
from bnaudit.request_log.repeats import Repeats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PRECISION = "the precision that production computes in, --precision fp32, tf32, fp16 or bf16"
SCORES = "scores and not only labels"
REQUESTS = "a column `request`, the same for all inputs that were sent together"
SIZES = "a column `batch_size`, the samples of the forward that the server made"
TIMES = "a column `time`"
MEANINGS = {
    "companions": "the other inputs of a batch",
    "randomness": "random draws, as of dropout",
    "history": "a state that changes between requests",
}


def counted(repeats: Repeats, differing: Sequence[int], largest: NDArray[np.float64]) -> str:
    """The opening sentence."""
    if not repeats.names:
        return f"None of {repeats.inputs} inputs was observed more than once."
    times = f"{len(repeats.names)} of {repeats.inputs} inputs were observed more than once"
    if not differing:
        return f"{times}, and none has scores further apart than {_limit(repeats)}."
    if repeats.is_labels:
        return f"{times}, and {len(differing)} of them with different labels."
    most = f"{float(largest.max()) * repeats.scale:.3g}"
    return f"{times}, {len(differing)} of them with different scores: up to {most} apart, against {_limit(repeats)}."


def _limit(repeats: Repeats) -> str:
    if repeats.is_labels:
        return "0"
    return f"the {repeats.limit * repeats.scale:.2g} that rounding and float arithmetic can make"


def as_small_as_half_precision(largest: float, repeats: Repeats) -> str:
    """Where the differences may be the arithmetic's."""
    share = f"{100 * largest:.2g} % of the scores' own size"
    return f"The differences are at most {share}, which half-precision arithmetic makes in batches of different sizes."


def same_request(proved: Proofs) -> str:
    """Proof of randomness."""
    total, differing = proved.same_request
    what = f"In {differing} of {total} pairs one input has different scores within one request"
    return f"{what}, where companions and state are the same: something is drawn at random."


def same_companions_differ(proved: Proofs, sizes_logged: bool) -> str:
    """Companions ruled out."""
    total, differing = proved.same_companions
    alone = f", {proved.alone[1]} of them sent alone" if proved.alone[1] else ""
    unless = "" if sizes_logged else ", unless the server joined requests into larger batches"
    return f"{differing} of {total} pairs in requests of the same inputs differ{alone}: it is not companions{unless}."


def same_companions_agree(equal: int, apart: int, others: int) -> str:
    """Randomness ruled out."""
    what = f"All {equal} pairs with the same companions agree, while {apart} of {others} with other companions differ"
    return f"{what}: nothing is drawn at random."


def lasting(growth: Pattern | None, lasts: Pattern | None) -> str:
    """History."""
    if lasts is not None and (growth is None or lasts.probability <= growth.probability):
        return f"{_share(lasts.value)} of the deviations lasts from one request to the next ({_chance(lasts)})."
    assert growth is not None
    what = "Scores of one input differ more the more time lies between"
    return f"{what}: correlation {growth.value:.2f} ({_chance(growth)})."


def falls_with_size(size: Pattern) -> str:
    """Companions."""
    what = f"The scatter falls as batches grow, rank correlation {-size.value:.2f} ({_chance(size)})"
    return f"{what}, as with companions."


def in_common(common: Pattern, history: bool) -> str:
    """Companions, unless history makes it."""
    what = f"Different inputs of one request share {_share(common.value)} of their deviations ({_chance(common)})"
    return f"{what}, as what lasts makes it too." if history else f"{what}, as with companions."


def unseen(common: Pattern | None, size: Pattern | None, in_time: float | None, supported: Sequence[str]) -> list[str]:
    """Patterns that were looked for and are not there."""
    missing = []
    if common is not None and common.probability > 0.05:
        missing.append(f"inputs of one request share no more of their deviations than by chance ({common.value:.2f})")
    if size is not None and size.probability > 0.05 and supported != ["history"]:
        missing.append("the scatter does not fall with the batch size")
    if in_time is not None and in_time > 0.05:
        missing.append("nothing lasts or grows with time")
    if not missing:
        return []
    sentence = "; ".join(missing)
    return [sentence[0].upper() + sentence[1:] + "."]


def cannot_be_told(kept: Sequence[str], ordered: bool) -> str:
    """When more than one is left."""
    named = " or ".join(f"{cause} ({MEANINGS[cause]})" for cause in kept)
    return f"The log leaves {named}{', likeliest first' if ordered else ', and cannot tell which'}."


def needs(repeats: Repeats, points: Sequence[str]) -> list[str]:
    """What to log next."""
    lacking = []
    if len(points) > 1:
        lacking += [REQUESTS] if repeats.requests is None else []
        lacking += [] if repeats.sizes_logged else [SIZES]
        lacking += [] if repeats.timed else [TIMES]
        lacking.append("some inputs sent twice alone, and twice beside the same companions")
    if points == ("companions",) and repeats.requests is None:
        lacking.append(f"{REQUESTS}, so that the log can be replayed")
    if points[:1] == ("history",):
        lacking.append("the served state saved before and after, for `bnaudit compare`")
    return lacking


def to_repeat(repeats: Repeats, proved: Proofs) -> list[str]:
    """What to log where nothing differs."""
    if not repeats.names:
        return ["some inputs observed more than once, and a column `input` that says which input each row is of"]
    if repeats.sizes is not None and not proved.other_companions[0]:
        return ["inputs observed beside different companions: here every repeated one had the same"]
    return []


def _share(value: float) -> str:
    return f"{100 * min(value, 1.0):.0f} %"


def _chance(pattern: Pattern) -> str:
    least = 1 / (1 + PERMUTATIONS)
    return f"p < {2 * least:.3f}" if pattern.probability <= 1.5 * least else f"p = {pattern.probability:.3f}"
