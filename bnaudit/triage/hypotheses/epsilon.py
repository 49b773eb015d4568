"""Another epsilon: Keras' 1e-3, PyTorch's 1e-5, none at all, or one that is solved for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator, Solvable
from bnaudit.triage.situation import Situation
from bnaudit.variation import Altered, Variation

_USUAL = (1e-3, 1e-5, 0.0)


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """The usual values, where not all layers have them."""
    for eps in _USUAL:
        if any(layer.eps is not None and layer.eps != eps for layer in situation.layers):
            yield _hypothesis(situation, eps)


def solvable(situation: Situation) -> Iterator[Solvable]:
    """Any other value, the same in all layers."""
    if any(layer.eps is not None for layer in situation.layers):
        yield Solvable("epsilon", partial(_hypothesis, situation, solved=True), 1e-9, 1.0)


def _hypothesis(situation: Situation, eps: float, solved: bool = False) -> Hypothesis:
    changes = {layer.name: Altered(eps=eps) for layer in situation.layers if layer.eps is not None}
    own = sorted({layer.eps for layer in situation.layers if layer.eps is not None})
    saved = f"{own[0]:g}" if len(own) == 1 else f"{own[0]:g} to {own[-1]:g}"
    return Hypothesis(
        name=f"{'solved-epsilon' if solved else 'epsilon'}:{eps:.9g}",
        claim=f"all norm layers ran with epsilon {eps:.4g}{', solved for' if solved else ''} (saved: {saved})",
        advice="set epsilon where the model is rebuilt or converted: no state dict holds it",
        variation=Variation(layers=MappingProxyType(changes)),
    )


GENERATOR = Generator("epsilon", singles, solvable=solvable)
