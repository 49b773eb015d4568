"""A norm layer ran with the state of another one of its shape: one layer that is called twice, or a copied key."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator
from bnaudit.triage.situation import Situation
from bnaudit.variation import Altered, Variation

_NEAREST = 4
"""Other layers that are tried for each, nearest first."""


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """It is always about two layers."""
    yield from ()


def of_layers(situation: Situation) -> Iterator[Hypothesis]:
    """Each layer with the state of each of the nearest that have as many channels."""
    for position, layer in enumerate(situation.layers):
        same = [
            (abs(place - position), place, other)
            for place, other in enumerate(situation.layers)
            if place != position and other.channels == layer.channels
        ]
        for _, _, other in sorted(same, key=lambda entry: entry[:2])[:_NEAREST]:
            state = Altered(mean=other.mean, var=other.var, gamma=other.gamma, beta=other.beta)
            yield Hypothesis(
                name="reused-layer",
                claim=f"{layer.name} ran with the state of {other.name}",
                advice="give each place its own norm layer, and load weights by name",
                layers=(layer.name, other.name),
                variation=Variation(layers=MappingProxyType({layer.name: state})),
            )


GENERATOR = Generator("reused-layers", singles, of_layers)
