"""Running statistics were not loaded: they are what a new layer begins with, mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType

import numpy as np

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator, LayerSearch
from bnaudit.triage.situation import Situation, listed
from bnaudit.variation import Altered, Variation


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """Lost in all layers."""
    layers = _losable(situation)
    if layers:
        yield _hypothesis(situation, layers)


def searches(situation: Situation) -> Iterator[LayerSearch]:
    """Lost in some layers."""
    layers = _losable(situation)
    if len(layers) > 1:
        stages = tuple(stage for stage in situation.stages() if set(stage) <= set(layers))
        yield LayerSearch("lost-buffers", layers, partial(_hypothesis, situation), stages)


def _losable(situation: Situation) -> tuple[str, ...]:
    """Layers whose statistics are not the initial ones."""
    return tuple(
        layer.name
        for layer in situation.layers
        if layer.mean is not None and layer.var is not None and (np.any(layer.mean != 0) or np.any(layer.var != 1))
    )


def _hypothesis(situation: Situation, layers: tuple[str, ...]) -> Hypothesis:
    every = len(_losable(situation))
    changes = {
        layer.name: Altered(mean=np.zeros_like(layer.mean), var=np.ones_like(layer.var))
        for layer in situation.layers
        if layer.name in layers and layer.mean is not None and layer.var is not None
    }
    return Hypothesis(
        name="lost-buffers",
        claim=f"running mean and variance of {listed(layers, every)} were not loaded (mean 0, variance 1)",
        advice="load the buffers with the weights: strict=True, and the whole state_dict rather than parameters()",
        layers=() if len(layers) == every else layers,
        variation=Variation(layers=MappingProxyType(changes)),
    )


GENERATOR = Generator("lost-buffers", singles, searches=searches)
