"""Two neighbouring norm layers of one shape took each other's state, as when weights are loaded by position."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from bnaudit.description import NormLayer
from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator
from bnaudit.triage.situation import Situation
from bnaudit.variation import Altered, Variation


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """It is always about two layers."""
    yield from ()


def of_layers(situation: Situation) -> Iterator[Hypothesis]:
    """Each layer and the next one that has as many channels."""
    for position, layer in enumerate(situation.layers):
        later = (other for other in situation.layers[position + 1 :] if other.channels == layer.channels)
        other = next(later, None)
        if other is not None:
            changes = {layer.name: _state(other), other.name: _state(layer)}
            yield Hypothesis(
                name="reordered-layers",
                claim=f"{layer.name} and {other.name} took each other's state",
                advice="load weights by name, not by position",
                layers=(layer.name, other.name),
                variation=Variation(layers=MappingProxyType(changes)),
            )


def _state(layer: NormLayer) -> Altered:
    return Altered(mean=layer.mean, var=layer.var, gamma=layer.gamma, beta=layer.beta)


GENERATOR = Generator("reordered-layers", singles, of_layers)
