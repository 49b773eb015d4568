"""The norm calls of two forwards, paired by their layers, and each layer's map as it is applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from bnaudit.comparison import Matching
from bnaudit.description import NormLayer
from bnaudit.layer_names import strip_wrappers
from bnaudit.parting.side import Ran, Seen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float64]


class Applied(NamedTuple):
    """One norm call with the layer that it is of."""

    seen: Seen
    layer: NormLayer | None
    """None: a functional call."""

    @property
    def name(self) -> str:
        """Of the layer, else of the place."""
        return self.seen.call.layer if self.seen.call.layer is not None else self.seen.call.place.module

    @property
    def eps(self) -> float | None:
        """As it was computed with."""
        if self.seen.call.eps is not None:
            return self.seen.call.eps
        return self.layer.eps if self.layer is not None else None

    @property
    def statistics(self) -> tuple[Vector, Vector] | None:
        """Mean and variance that it normalizes with; None where that is the batch's own, or it keeps none."""
        call = self.seen.call
        if call.uses_batch:
            return None
        if call.stored_mean is not None and call.stored_var is not None:
            return call.stored_mean, call.stored_var
        if self.layer is not None and self.layer.mean is not None and self.layer.var is not None:
            return self.layer.mean, self.layer.var
        return None

    @property
    def affine(self) -> tuple[Vector, Vector]:
        """gamma and beta; ones and zeros where there are none."""
        gamma = self.layer.gamma if self.layer is not None else None
        beta = self.layer.beta if self.layer is not None else None
        channels = self.seen.call.channels
        return (
            gamma.reshape(-1) if gamma is not None else np.ones(channels),
            beta.reshape(-1) if beta is not None else np.zeros(channels),
        )


class CallPair(NamedTuple):
    """The same norm call in both forwards."""

    baseline: Applied
    subject: Applied


def call_pairs(baseline: Ran, subject: Ran, matching: Matching) -> tuple[CallPair, ...]:
    """The calls of both, paired by layer and by which time the layer runs, in the baseline's order of execution.

    Calls of no layer, and of layers that were not paired, are paired in their order where both have as many of them
    with the same channels.
    """
    ours, theirs = _applied(subject), _applied(baseline)
    partner = _partners(matching, {call.name for call in theirs}, {call.name for call in ours})
    by_layer: defaultdict[str, list[Applied]] = defaultdict(list)
    for call in ours:
        if call.seen.call.layer is not None:
            by_layer[call.name].append(call)
    found: dict[int, CallPair] = {}
    taken: set[int] = set()
    times: defaultdict[str, int] = defaultdict(int)
    for call in theirs:
        name = partner.get(call.name) if call.seen.call.layer is not None else None
        time = times[call.name]
        times[call.name] += 1
        if name is not None and time < len(by_layer[name]):
            other = by_layer[name][time]
            found[call.seen.call.index] = CallPair(call, other)
            taken.add(other.seen.call.index)
    left = [call for call in theirs if call.seen.call.index not in found]
    right = [call for call in ours if call.seen.call.index not in taken]
    if [call.seen.call.channels for call in left] == [call.seen.call.channels for call in right]:
        found |= {one.seen.call.index: CallPair(one, other) for one, other in zip(left, right, strict=True)}
    return tuple(found[index] for index in sorted(found) if _comparable(found[index]))


def _applied(ran: Ran) -> list[Applied]:
    layers = {layer.name: layer for layer in ran.part.layers}
    return [Applied(seen, layers.get(seen.call.layer or "")) for seen in ran.norms]


def _comparable(pair: CallPair) -> bool:
    return pair.baseline.seen.call.channels == pair.subject.seen.call.channels


def _partners(matching: Matching, baseline: Iterable[str], subject: Iterable[str]) -> Mapping[str, str]:
    """The baseline's names, as its session says them, and the subject's.

    A file's names may have prefixes that the model's lack; layers that were paired are found without them too.
    """
    known = {strip_wrappers(pair.baseline.name): strip_wrappers(pair.subject.name) for pair in matching.pairs}
    ours = {strip_wrappers(name): name for name in subject}
    found: dict[str, str] = {}
    for name in baseline:
        plain = strip_wrappers(name)
        other = ours.get(known.get(plain, plain)) or ours.get(plain)
        if other is not None:
            found[name] = other
    return found
