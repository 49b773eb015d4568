"""A graph normalizes with statistics that it computes from its own input.

## What it finds

An ONNX `BatchNormalization` in inference form whose mean and variance are no constants: walking back through the
graph, they depend on the *values* of a graph input. This is how the newer PyTorch exporter (dynamo=True) writes a
batch norm without running statistics, whatever the mode.

Also, at medium confidence, a norm spelled out with reductions over the batch axis of a declared input whose first
dimension is free.

## Why it matters

The node looks like an ordinary inference batch norm: no training flag, one output, and every check of the mode
passes. Still each prediction is normalized with the mean and variance of whatever stands in the batch.

## Worked arithmetic

One channel, ε = 1e-5, no affine; the graph computes mean and variance of its batch and hands them to the node:

    batch (6, 8)   mean 7, variance 1   6 → −1.00
    batch (6, 4)   mean 5, variance 1   6 → +1.00
    batch (6)      mean 6, variance 0   6 →  0.00, as any other input

With stored mean 0.97 and variance 1.19 all three would be 4.61.

## How to fix

Give the PyTorch layer statistics (`track_running_stats=True`, the default), measure them on training data, and
export again in eval mode:

    torch.optim.swa_utils.update_bn(training_loader, model)
    model.eval()
    torch.onnx.export(model, args, "model.onnx", dynamo=True)

If per-input statistics are what the model needs, use InstanceNorm or GroupNorm.

## Limits

- Constants may come through any operators (Constant, Identity, Expand, Tile, DequantizeLinear, Shape, …); an
  initializer that also stands among the graph's inputs is a constant.
- Instance norm with tracking reaches the input only through its shape and is not reported.
- For spelled-out norms the file does not say whether the first axis is the batch: medium confidence, and silent when
  the declared first dimension is a number, the only one, or called a time, a length or the like.
- When every input is declared with a batch of one, there are no neighbours: the finding stays, verdict 3 does not
  fail by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bnaudit.description import NormKind, NormLayer, Part
from bnaudit.measurement import Swap
from bnaudit.places import layer_at
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_LENGTHS = frozenset(
    {"t", "time", "timesteps", "frame", "frames", "len", "length", "seq", "sequence", "steps", "tokens", "points"}
)
"""Words in the name of a dimension along which one sample extends."""
_NO_LETTER = re.compile(r"[^a-z]+")
_ADVICE = "give the layer running statistics (update_bn on training data) and export again in eval mode"


@rule(id="BN211", severity=Severity.ERROR, question=Question.NEIGHBOURS)
def run_time_statistics(case: Case) -> Iterator[Hit]:
    """One hit per norm over the batch whose statistics are computed at run time."""
    for part, layer in case.subject.layers:
        if not layer.statistics_from_input or not part.carrier.has_code or layer.graph_training:
            continue
        if layer.spelled_out:
            if layer.kind is NormKind.BATCH and _has_free_batch(part):
                yield _hit(part, layer, Confidence.HIGH if _is_proved(case, layer) else Confidence.MEDIUM)
        elif layer.kind in (NormKind.BATCH, NormKind.SYNC_BATCH):
            yield _hit(part, layer, Confidence.HIGH)


def _is_proved(case: Case, layer: NormLayer) -> bool:
    """Whether a run showed that samples meet in it."""
    swaps = case.measured.of(Swap) if case.measured is not None else ()
    places = (found for swap in swaps if swap.leaks for found in swap.mixing)
    return any(layer_at(case.subject, found.place, found.layer) == layer.name for found in places)


def _has_free_batch(part: Part) -> bool:
    """Whether an input begins with a free dimension that may be the batch: no length, and not all that there is."""
    return any(given.shape and len(given.shape) > 1 and _may_be_batch(given.shape[0]) for given in part.inputs)


def _may_be_batch(size: int | str | None) -> bool:
    if not isinstance(size, str):
        return size is None
    return _LENGTHS.isdisjoint(_NO_LETTER.split(size.lower()))


def _batch_of_one(part: Part) -> bool:
    return bool(part.inputs) and all(given.shape is not None and given.shape[:1] == (1,) for given in part.inputs)


def _hit(part: Part, layer: NormLayer, confidence: Confidence) -> Hit:
    spelled = "a norm spelled out with reductions over the batch axis" if layer.spelled_out else "its mean and variance"
    verb = "takes its statistics from the batch" if layer.spelled_out else "are computed from the graph's input"
    return Hit(
        message=f"{spelled} {verb} at run time: predictions depend on the neighbours",
        advice=_ADVICE,
        layer=layer.name,
        part=part.name,
        value="computed at run time",
        limit="stored",
        confidence=confidence,
        settles=False if _batch_of_one(part) else None,
    )
