"""Norm layers ran in training mode: each batch was normalized with its own statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np

from bnaudit.description import NormKind
from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator, LayerSearch, Untried
from bnaudit.triage.situation import Situation, listed
from bnaudit.variation import Altered, Variation

_WORDS = {
    "alone": "every input by itself",
    "together": "all given inputs in one batch",
    "requests": "every logged request by itself",
    "companions": "every input with the companions that were given",
}
_ADVICE = "call model.eval() after loading, before the first prediction"


def singles(situation: Situation) -> Iterator[Hypothesis | Untried]:
    """All norms in training mode, in every way that inputs may have been put together."""
    layers = _trainable(situation)
    for batching in _batchings(situation) if layers else ():
        yield _hypothesis(situation, batching, layers)
    if layers and situation.requests is None:
        yield Untried(
            "norm layers ran in training mode, requests as production sent them", "a column of request numbers"
        )
    if layers and not situation.has_companions:
        yield Untried("norm layers ran in training mode beside other inputs", "--companions")


def searches(situation: Situation) -> Iterator[LayerSearch]:
    """Some norms in training mode."""
    layers = _trainable(situation)
    stages = tuple(stage for stage in situation.stages() if set(stage) <= set(layers))
    for batching in _batchings(situation) if len(layers) > 1 else ():
        make = partial(_hypothesis, situation, batching)
        yield LayerSearch(f"training-mode, {batching}", layers, make, stages)


def _trainable(situation: Situation) -> tuple[str, ...]:
    return tuple(layer.name for layer in situation.layers if layer.kind is not NormKind.FROZEN_BATCH)


def _batchings(situation: Situation) -> Iterator[str]:
    """Ways of putting inputs together that differ on the given ones."""
    fixed = situation.fixed_batch
    if fixed in (None, 1):
        yield "alone"
    if situation.has_companions:
        yield "companions"
    sizes: Sequence[int] = ()
    if situation.requests is not None:
        sizes = np.unique(situation.requests, return_counts=True)[1].tolist()
        if max(sizes) > 1:
            yield "requests"
    whole = list(sizes) == [situation.inputs] and len(set(situation.rows.tolist())) == situation.inputs
    if situation.inputs > 1 and fixed is None and not whole:
        yield "together"


def _hypothesis(situation: Situation, batching: str, layers: tuple[str, ...]) -> Hypothesis:
    every = len(_trainable(situation))
    return Hypothesis(
        name="training-mode",
        claim=f"{listed(layers, every)} ran in training mode, {_WORDS[batching]}",
        advice=_ADVICE,
        layers=() if len(layers) == every else layers,
        variation=Variation(layers=MappingProxyType({name: Altered(training=True) for name in layers})),
        batching=batching,
    )


GENERATOR = Generator("training-mode", singles, searches=searches)
