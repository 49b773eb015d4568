"""Weight or bias of norm layers was not applied, as in a port or a fold that forgets it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType

import numpy as np

from bnaudit.description import NormLayer
from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator, LayerSearch
from bnaudit.triage.situation import Situation, listed
from bnaudit.variation import Altered, Variation

_WORDS = {"gamma": ("ignored-weight", "the weight (gamma)"), "beta": ("ignored-bias", "the bias (beta)")}


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """Ignored in all layers."""
    for field in _WORDS:
        layers = _concerned(situation, field)
        if layers:
            yield _hypothesis(situation, field, layers)


def searches(situation: Situation) -> Iterator[LayerSearch]:
    """Ignored in some layers."""
    for field in _WORDS:
        layers = _concerned(situation, field)
        if len(layers) > 1:
            yield LayerSearch(_WORDS[field][0], layers, partial(_hypothesis, situation, field))


def _concerned(situation: Situation, field: str) -> tuple[str, ...]:
    """Layers where it is not 1, or 0, throughout."""
    return tuple(layer.name for layer in situation.layers if _matters(layer, field))


def _matters(layer: NormLayer, field: str) -> bool:
    if field == "gamma":
        return layer.gamma is not None and bool(np.any(layer.gamma != 1))
    return layer.beta is not None and bool(np.any(layer.beta != 0))


def _hypothesis(situation: Situation, field: str, layers: tuple[str, ...]) -> Hypothesis:
    every = len(_concerned(situation, field))
    name, words = _WORDS[field]
    changes = {layer.name: _ignored(layer, field) for layer in situation.layers if layer.name in layers}
    return Hypothesis(
        name=name,
        claim=f"{words} of {listed(layers, every)} was not applied",
        advice=f"check how {words} is loaded or folded",
        layers=() if len(layers) == every else layers,
        variation=Variation(layers=MappingProxyType(changes)),
    )


def _ignored(layer: NormLayer, field: str) -> Altered:
    if field == "gamma":
        return Altered(gamma=None if layer.gamma is None else np.ones_like(layer.gamma))
    return Altered(beta=None if layer.beta is None else np.zeros_like(layer.beta))


GENERATOR = Generator("ignored-affine", singles, searches=searches)
