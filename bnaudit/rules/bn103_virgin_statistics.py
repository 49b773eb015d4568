"""Running statistics are at their initial values, mean 0 and variance 1, in a trained layer.

## What it finds

A batch norm whose running mean is exactly 0 and whose running variance is exactly 1 in all channels. What it is
depends on the rest of the layer:

- **Error**: the layer was trained. Its counter is above 0 (it was run and never updated: momentum 0, or statistics
  that were reset and not measured), or its bias is not 0, or its weight differs between channels and is not as
  initialisers draw it: within [0, 1], or within 0.1 of 1.
- **Warning**: nothing shows training, while other layers of the model have moved. The layer never ran in training:
  an unused branch, or a fresh head on a pretrained backbone. *Buffers complete* then stays open.
- **Note**: every batch norm of the model is at its initial values: a fresh model. The same where counters are 0 and
  weights and biases look drawn from one distribution for all layers, as RepVGG's are; *buffers complete* stays open.
- **Note**: every batch norm has mean 0 and one variance within 0.001 of 1, there are no counters, and weights and
  biases are trained: the statistics were absorbed into them (Caffe2's frozen norms store 1 − epsilon).

## Why it matters

With mean 0 and variance 1, eval mode does not normalize at all: the layer passes its input on. In training mode
the batch is used, so that training and its validation loss look right as long as nobody calls `eval()`.

## Worked arithmetic

Activations of mean 20 and variance 25, gamma 2, beta 1. The activation 30:

    true statistics      2 · (30 − 20) / √25 + 1 = 5
    initial statistics   2 · (30 −  0) / √1  + 1 = 61

## How to fix

Measure the statistics on training data, with the weights that will be deployed:

    torch.optim.swa_utils.update_bn(loader, model)      # resets, then averages over the loader

Common causes: the model was in eval mode while it trained; `momentum=0` instead of `None` during recalibration;
weights ported or averaged without their buffers; update operations of a TensorFlow 1 graph that never ran.

## Limits

- PyTorch before 1.2 drew the weight from U(0, 1), DCGAN and its descendants draw it from N(1, 0.02): such a weight
  beside a bias of 0 does not prove training.
- When all of a file's norms are at exactly 0 and 1, without counters and with trained weights, absorbed statistics
  and statistics that were never stored look alike: a note, and *buffers complete* stays open.
- An averaged model (EMA, SWA) beside the raw one is told by BN117, InstanceNorm by no rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormLayer, Part
from bnaudit.initial_state import (
    ABSORBED,
    has_initial_affine,
    is_absorbed,
    is_fresh,
    is_virgin,
    one_variance,
    updates,
    was_trained,
)
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_MEASURE = "measure the statistics on training data: torch.optim.swa_utils.update_bn(loader, model)"
_TRAIN = "train the branch, or leave it out of the deployed model"


@rule(
    id="BN103",
    severity=Severity.ERROR,
    question=Question.BUFFERS,
    limits={"absorbed_variance": ABSORBED},
    yields_to=("BN117",),
)
def virgin_statistics(case: Case) -> Iterator[Hit]:
    """One hit per virgin layer, or one note per part when all its layers are fresh or absorbed."""
    for part in case.subject.parts:
        norms = [layer for layer in part.layers if layer.kind.is_batch and _has_values(layer)]
        if is_absorbed(norms, case.limits["absorbed_variance"]):
            yield _absorbed(part, norms)
        elif norms and is_fresh(norms):
            yield _fresh(part, norms)
        else:
            yield from _virgin_layers(part, norms)


def _has_values(layer: NormLayer) -> bool:
    mean, var = layer.mean, layer.var
    return mean is not None and var is not None and mean.size > 0 and var.size > 0


def _virgin_layers(part: Part, norms: list[NormLayer]) -> Iterator[Hit]:
    virgin = [layer for layer in norms if is_virgin(layer)]
    for layer in virgin:
        if was_trained(layer):
            yield _trained(part, layer)
        elif len(virgin) < len(norms):
            yield Hit(
                message="mean 0, variance 1 and nothing trained, while other layers have moved: never ran in training",
                advice=_TRAIN,
                layer=layer.name,
                part=part.name,
                severity=Severity.WARNING,
                confidence=Confidence.MEDIUM,
                undecided="a batch norm never ran in training: an unused branch, or a head still to be trained",
            )


def _trained(part: Part, layer: NormLayer) -> Hit:
    counter = updates(layer)
    proof = "its counter moved" if counter else "its weight or bias is trained"
    return Hit(
        message=f"mean is exactly 0 and variance exactly 1 in all channels, and {proof}: eval does not normalize",
        advice=_MEASURE,
        layer=layer.name,
        part=part.name,
        value=f"{counter:,} update{'s' if counter > 1 else ''}" if counter else None,
    )


def _fresh(part: Part, norms: list[NormLayer]) -> Hit:
    drawn = not all(has_initial_affine(layer) for layer in norms)
    reading = "a weight and bias as if drawn" if drawn else "nothing trained"
    return Hit(
        message=f"a fresh model: every batch norm has mean 0, variance 1 and {reading}",
        advice="train the model before deploying it",
        part=part.name,
        value=len(norms),
        severity=Severity.NOTE,
        undecided="mean 0 and variance 1 everywhere: a fresh model, or one whose statistics are lost" if drawn else "",
    )


def _absorbed(part: Part, norms: list[NormLayer]) -> Hit:
    exactly_one = is_virgin(norms[0])
    reading = "absorbed into weight and bias, or never stored" if exactly_one else "absorbed into weight and bias"
    return Hit(
        message=f"every batch norm has mean 0 and one variance near 1, and trained weights: {reading}",
        advice="nothing to do if the model was converted so; else measure the statistics with update_bn",
        part=part.name,
        value=one_variance(norms[0]),
        limit=1,
        severity=Severity.NOTE,
        undecided="mean 0 and variance 1 everywhere: absorbed or never stored; compare it with what it was made from"
        if exactly_one
        else "",
    )
