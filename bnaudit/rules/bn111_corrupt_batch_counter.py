"""A batch counter is not a count: a float, a fraction, negative, infinite or not one number.

## What it finds

A `num_batches_tracked` that is stored as a floating-point number, or whose value is fractional, negative, infinite or
NaN, or that holds several numbers. PyTorch keeps it as one int64.

## Why it matters

It is a trace of code that treated the whole state dict alike: an average over models that divided the counters too,
or a cast of every tensor. Whatever did that has touched the statistics as well, so look at them. The counter itself
is used by `momentum=None`, where the next batch weighs 1 / (counter + 1), and by tools that compare checkpoints.

## Worked arithmetic

    average of counters 1000, 1001, 1003        1001.33      fractional
    92385 cast to float16                       inf          the largest float16 is 65504
    92385 cast to bfloat16                      92160        a whole number, off by 225
    inf loaded into the int64 buffer            some number that depends on the processor
    momentum=None with counter −1               weight 1 / 0

## How to fix

Average and cast floating tensors only, and take the counter from one of the models:

    for name, tensor in state.items():
        if tensor.is_floating_point():
            average[name] += tensor / len(models)
        else:
            average[name] = tensor

To mend a file: `state[name] = torch.tensor(count)`; `model.half()` and `model.bfloat16()` leave counters alone.

## Limits

- A float that holds a whole number is reported too: the cast has happened, and in half precision the number is
  rounded.
- A counter without values (meta device) is unknown. Frozen batch norms have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.description import NormKind, NormLayer
from bnaudit.initial_state import LEARNS_STATISTICS
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule


@rule(id="BN111", severity=Severity.WARNING, question=Question.BUFFERS)
def corrupt_batch_counter(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        if layer.kind not in LEARNS_STATISTICS and layer.kind is not NormKind.UNKNOWN:
            continue
        message, value = _fault(layer)
        if message:
            yield Hit(
                message=message,
                advice="average and cast floating tensors only; set num_batches_tracked to a whole number again",
                layer=layer.name,
                part=part.name,
                value=value,
            )


def _fault(layer: NormLayer) -> tuple[str, float | int | str | None]:
    """What is wrong with the counter, and its value; an empty message: nothing."""
    stored = layer.num_batches_tracked
    if stored is None or stored.values is None:
        return "", None
    if stored.values.size != 1:
        return "num_batches_tracked holds several numbers or none", stored.values.size
    value = float(stored.values.reshape(-1)[0])
    if not math.isfinite(value):
        return f"num_batches_tracked is not finite ({stored.dtype})", str(value)
    if value < 0:
        return "num_batches_tracked is negative", int(value) if value == int(value) else value
    if value != int(value):
        return f"num_batches_tracked is fractional ({stored.dtype})", value
    if stored.is_floating:
        return f"num_batches_tracked is stored as {stored.dtype}", value
    return "", None
