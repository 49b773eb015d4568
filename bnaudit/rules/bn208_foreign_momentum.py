"""The momentum of a layer that trains looks like another framework's, or keeps only the last batch.

## What it finds

A norm layer with running statistics that will train (it is in training mode, in training form in a graph, or stands
in a checkpoint with optimizer state) whose momentum is at least 0.5 in PyTorch's convention, the weight of the *new*
batch. A momentum of 0, which never updates, is a note in a layer that is in eval mode with real statistics (weights
ported from another framework) and a warning in a layer that trains.

## Why it matters

PyTorch writes `running = (1 − m)·running + m·batch` with m = 0.1 by default. TensorFlow, Keras, Caffe and ONNX mean
the weight of the *old* value, 0.9 or 0.99. A 0.9 carried over as it stands makes the running statistics those of the
last batch or two, and eval mode as noisy as a single batch. With m = 1 they are the last batch's.

## Worked arithmetic

Batches (2, 4) and (6, 8), running mean from 0:

    m = 0.1    0.3 → 0.9·0.3 + 0.1·7  = 0.97     the weight of the last batch is 0.1
    m = 0.9    2.7 → 0.1·2.7 + 0.9·7  = 6.57     the last batch alone has weight 0.9
    m = 1      3.0 → 7.0                         the last batch is all there is

An average with weight m holds about 2/m − 1 batches: 19 at 0.1, 1.2 at 0.9.

## How to fix

    BatchNorm2d(64, momentum=1 - keras_momentum)     # Keras 0.99 is PyTorch 0.01

Then measure the statistics again over the training data, because those in the file are the last batch's:

    torch.optim.swa_utils.update_bn(training_loader, model)

## Limits

- `momentum=None` (the plain average over all batches) is never reported.
- In a layer that only infers, momentum has no effect and producers write anything: silent, except the note at 0.
- A few recipes use 0.5 or more on purpose; raise the limit `momentum` for them.
- A state dict holds no momentum.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier, Description, NormLayer, Part
from bnaudit.modes import fixed_or_stored_mode, mode_layers, norm_depends_on_mode
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule


@rule(id="BN208", severity=Severity.WARNING, limits={"momentum": 0.5})
def foreign_momentum(case: Case) -> Iterator[Hit]:
    """One hit per layer; whether a layer trains decides between silence, note and warning."""
    limit = case.limits["momentum"]
    for part in case.subject.parts:
        training = _training(case.subject, part)
        for layer in part.layers:
            momentum = layer.momentum
            if not isinstance(momentum, (int, float)) or not norm_depends_on_mode(layer):
                continue
            trains = layer.name in training
            if momentum >= limit and trains:
                yield _large(part, layer, float(momentum), limit)
            elif momentum == 0 and (trains or (part.carrier is Carrier.MODULE and _has_real_statistics(layer))):
                yield _zero(part, layer, trains)


def _training(subject: Description, part: Part) -> set[str]:
    """Names of the layers that will train."""
    if subject.has_optimizer and part.carrier is Carrier.MODULE:
        return {layer.name for layer in part.layers}
    return {layer.name for layer in mode_layers(part) if fixed_or_stored_mode(part, layer)}


def _has_real_statistics(layer: NormLayer) -> bool:
    mean, var = layer.mean, layer.var
    return mean is not None and var is not None and bool((mean != 0).any() or (var != 1).any())


def _large(part: Part, layer: NormLayer, momentum: float, limit: float) -> Hit:
    if momentum < 1:
        message = "the newest batch outweighs all others in the running statistics: another framework's momentum?"
        advice = "use 1 − momentum of the other framework, then measure the statistics again with update_bn"
    else:
        message = "the running statistics are the last batch's, nothing older is kept"
        advice = "set momentum to 0.1 (or None, the plain average), then measure the statistics again with update_bn"
    return Hit(message=message, advice=advice, layer=layer.name, part=part.name, value=momentum, limit=limit)


def _zero(part: Part, layer: NormLayer, trains: bool) -> Hit:
    return Hit(
        message="momentum 0: training uses the batch and never updates the running statistics"
        if trains
        else "momentum 0: the statistics are kept as they are, also if the layer is trained (usual in ported weights)",
        advice="set momentum to 0.1 (or None, the plain average) before training",
        layer=layer.name,
        part=part.name,
        value=0.0,
        severity=Severity.WARNING if trains else Severity.NOTE,
    )
