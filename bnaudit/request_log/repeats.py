"""Observations of inputs that were observed more than once, and what their scores' own precision can make differ."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.observed import RequestLog
from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PRECISIONS: Mapping[str, float] = MappingProxyType({"fp32": 1e-6, "tf32": 1e-3, "fp16": 1e-3, "bf16": 8e-3})
"""What arithmetic of a precision makes of scores, relative to their scale, as measured over planted faults."""
_RANGE = 20.0
"""How many times their root mean square the largest difference of many values may be."""
_MOST = 20_000
"""Observations that are looked at; of more, the first."""


class Repeats(Record, eq=False):
    """Repeated observations. The index of an observation is its row in the arrays."""

    total: int
    """All observations of the log."""
    inputs: int
    names: tuple[str, ...]
    """Of the repeated inputs."""
    values: NDArray[np.float64]
    """(observations, columns), of repeated inputs only, each column divided by the scores' scale; labels one-hot."""
    owner: NDArray[np.int64]
    """(observations,): which repeated input."""
    requests: NDArray[np.int64] | None
    companions: tuple[tuple[int, ...], ...] | None
    """(observations,): all inputs of the observation's request, sorted; None: requests were not logged."""
    sizes: NDArray[np.int64] | None
    """(observations,): samples of the forward, 0 unknown."""
    order: NDArray[np.float64] | None
    """(observations,): rank in time; None: neither times nor an order that could be one."""
    timed: bool
    """The order is that of logged times, not of the rows."""
    sizes_logged: bool
    """The sizes are those of forwards, and not only of what the log holds of each request."""
    scale: float
    limit: float
    """Largest difference, in units of the scale, that the scores' precision can make."""
    coarse: float
    """The same if it was computed in half precision, which nobody said."""
    is_labels: bool
    is_probabilities: bool


def found_repeats(log: RequestLog, precision: str | None) -> Repeats:
    """The repeated observations of a log. precision: a key of PRECISIONS; None: float32, unless it seems otherwise."""
    import numpy as np

    observed = log.observed
    keys = log.keys[:_MOST] if log.keys is not None else tuple(map(str, observed.rows.tolist()[:_MOST]))
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    repeated = [key for key, count in counts.items() if count > 1]
    place = {key: number for number, key in enumerate(repeated)}
    chosen = np.array([row for row, key in enumerate(keys) if key in place], np.int64)
    values, scale = _scaled(observed, chosen)
    order, timed = _order(log, keys)
    limit = PRECISIONS[precision or "fp32"] * _RANGE
    step = (observed.step or 0.0) / scale * 1.001
    return Repeats(
        total=len(observed.rows),
        inputs=len(counts),
        names=tuple(repeated),
        values=values,
        owner=np.array([place[keys[row]] for row in chosen.tolist()], np.int64),
        requests=None if observed.requests is None else observed.requests[chosen],
        companions=_companions(observed, keys, chosen),
        sizes=_sizes(log, chosen),
        order=None if order is None else order[chosen],
        timed=timed,
        sizes_logged=log.batch_sizes is not None,
        scale=scale,
        limit=0.5 if observed.kind is ScoreKind.LABELS else limit + step,
        coarse=limit + step if precision else PRECISIONS["bf16"] * _RANGE / 2 + step,
        is_labels=observed.kind is ScoreKind.LABELS,
        is_probabilities=observed.kind is ScoreKind.PROBABILITIES,
    )


def _scaled(observed: Observed, chosen: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    import numpy as np

    values = observed.values[chosen]
    if observed.kind is ScoreKind.LABELS:
        classes, column = np.unique(values, return_inverse=True)
        kept = min(len(classes), 256)
        return np.eye(len(classes))[column.ravel()][:, :kept], 1.0
    seen = observed.values[np.isfinite(observed.values)]
    scale = float(np.sqrt(np.mean(seen.astype(np.float64) ** 2))) or 1.0
    return values.astype(np.float64) / scale, scale


def _order(log: RequestLog, keys: tuple[str, ...]) -> tuple[NDArray[np.float64] | None, bool]:
    """Rank of every observation in time. The order of the rows stands for it unless the rows are sorted by input."""
    import numpy as np

    if log.times is not None and np.isfinite(log.times).all():
        return _ranks(log.times), True
    changes = sum(one != other for one, other in pairwise(keys))
    if changes + 1 <= len(set(keys)):
        return None, False
    return np.arange(len(log.observed.rows), dtype=np.float64), False


def _ranks(times: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    _, ranks = np.unique(times, return_inverse=True)
    return ranks.ravel().astype(np.float64)


def _companions(
    observed: Observed, keys: tuple[str, ...], chosen: NDArray[np.int64]
) -> tuple[tuple[int, ...], ...] | None:
    if observed.requests is None:
        return None
    number: dict[str, int] = {}
    members: dict[int, list[int]] = {}
    requests = observed.requests.tolist()
    for key, request in zip(keys, requests, strict=False):
        members.setdefault(request, []).append(number.setdefault(key, len(number)))
    whole = {request: tuple(sorted(inside)) for request, inside in members.items()}
    return tuple(whole[requests[row]] for row in chosen.tolist())


def _sizes(log: RequestLog, chosen: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Batch sizes as logged, else how many observations each request has."""
    import numpy as np

    if log.batch_sizes is not None:
        return log.batch_sizes[chosen]
    requests = log.observed.requests
    if requests is None:
        return None
    _, inverse, counts = np.unique(requests, return_inverse=True, return_counts=True)
    return counts[inverse.ravel()][chosen].astype(np.int64)
