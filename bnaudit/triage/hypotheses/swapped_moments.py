"""Running mean and running variance took each other's place, as in a port that goes by position."""

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
    """Swapped in all layers."""
    layers = _swappable(situation)
    if layers:
        yield _hypothesis(situation, layers)


def searches(situation: Situation) -> Iterator[LayerSearch]:
    """Swapped in some layers."""
    layers = _swappable(situation)
    if len(layers) > 1:
        yield LayerSearch("swapped-moments", layers, partial(_hypothesis, situation))


def _swappable(situation: Situation) -> tuple[str, ...]:
    """Layers where that gives numbers: a negative mean is no variance, and gives NaN."""
    return tuple(
        layer.name
        for layer in situation.layers
        if layer.mean is not None
        and layer.var is not None
        and np.any(layer.mean != layer.var)
        and np.all(layer.mean + (layer.eps or 0.0) > 0)
    )


def _hypothesis(situation: Situation, layers: tuple[str, ...]) -> Hypothesis:
    every = len(_swappable(situation))
    changes = {
        layer.name: Altered(mean=layer.var, var=layer.mean) for layer in situation.layers if layer.name in layers
    }
    return Hypothesis(
        name="swapped-moments",
        claim=f"running mean and variance of {listed(layers, every)} were swapped",
        advice="load norm tensors by name; the order of weight, bias, mean and variance differs between frameworks",
        layers=() if len(layers) == every == len(situation.layers) else layers,
        variation=Variation(layers=MappingProxyType(changes)),
    )


GENERATOR = Generator("swapped-moments", singles, searches=searches)
