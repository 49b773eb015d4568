"""Which inputs go into which forward, and whose scores are read from which row of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHUNK = 64
"""Inputs of one forward where companions do not matter."""


class Forward(NamedTuple):
    """One forward to be made."""

    rows: tuple[int, ...]
    """Inputs, in the order of the batch."""
    read: tuple[tuple[int, tuple[int, ...]], ...]
    """Row of the batch, and the observations whose scores stand there."""
    companions: int | None = None
    """The input whose given companions follow in the batch; None: none do."""


def plan(
    batching: str,
    observations: Sequence[int],
    rows: NDArray[np.int64],
    requests: NDArray[np.int64] | None,
    inputs: int,
    chunk: int = CHUNK,
) -> Iterator[Forward]:
    """The forwards for these observations. rows: input of every observation; see `Hypothesis.batching`."""
    if batching == "requests" and requests is not None:
        yield from _by_request(observations, rows, requests)
        return
    of_input: dict[int, list[int]] = {}
    for observation in observations:
        of_input.setdefault(int(rows[observation]), []).append(observation)
    if batching == "together":
        yield Forward(tuple(range(inputs)), tuple((row, tuple(of_input[row])) for row in sorted(of_input)))
        return
    wanted = sorted(of_input)
    size = 1 if batching in ("alone", "companions") else chunk
    for start in range(0, len(wanted), size):
        some = wanted[start : start + size]
        read = tuple((position, tuple(of_input[row])) for position, row in enumerate(some))
        yield Forward(tuple(some), read, some[0] if batching == "companions" else None)


def _by_request(observations: Sequence[int], rows: NDArray[np.int64], requests: NDArray[np.int64]) -> Iterator[Forward]:
    """One forward for every request of which an observation is wanted, with all inputs that were logged for it."""
    wanted = set(observations)
    for request in dict.fromkeys(requests[list(observations)].tolist()):
        members = np.flatnonzero(requests == request).tolist()
        read = tuple((position, (member,)) for position, member in enumerate(members) if member in wanted)
        yield Forward(tuple(int(rows[member]) for member in members), read)
