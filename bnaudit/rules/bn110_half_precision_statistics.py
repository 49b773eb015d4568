"""Running statistics are stored in half precision, or went through it.

## What it finds

- **Warning**: running mean or variance is float16 or bfloat16 while the weights are wider, or in a training checkpoint
  (optimizer state beside the model), where they go on being updated.
- **Note**: the weights have that precision too and nothing marks training: converted for inference.
- **Note**: float32 statistics whose every value is a float16 (or bfloat16) value: they went through half precision
  and back. A float32 that was never rounded is on that grid with a chance of 1 in 8192 (65536) per value.

## Why it matters

A running update adds a tenth, or a thousandth, of a difference. In bfloat16 (8 significant bits) such an update is
below half a step and is rounded away: the statistics get stuck far from the truth. Reading them is harmless in
comparison: rounding a variance to float16 moves the gain by at most 0.03 %, in bfloat16 by 0.2 %.

## Worked arithmetic

bfloat16, momentum 0.001, true variance 9. At a stored variance of 4.0:

    0.999 · 4 + 0.001 · 9 = 4.005        steps of bfloat16 between 4 and 8: 0.03125
    4.005 rounds to 4.0                  stuck at 4.0 for ever; float32 would reach 8.6 after 3000 steps

The gain is then 1 / √4 instead of 1 / √9: every activation 1.5 times too large.

## How to fix

Keep the norms in float32 while training (`norm.float()` after `model.half()` or `model.bfloat16()`; with FSDP set
`MixedPrecision(buffer_dtype=torch.float32)`), and measure the statistics again in float32:

    model.float(); torch.optim.swa_utils.update_bn(loader, model)

## Limits

- Whether values are stuck cannot be read off them: this rule tells the precision, not the error.
- A round trip is reported only for layers with 8 or more different values; initial values and small integers lie on
  every grid.
- The weights are those of the norm itself, where it has some: a temperature, rotary frequencies or the scales of a
  Resize stay in float32 in models that are half precision throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bnaudit.description import Carrier, Description, NormLayer, Part, StoredTensor
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HALF = ("bfloat16", "float16")
"""The coarser grid first: within float16's range every bfloat16 value is a float16 value."""
_WIDE = ("float32", "float64")
_TRAIN = "keep norm statistics in float32 while training, and measure them again with update_bn in float32"
_SERVE = "nothing to do for inference; train from the float32 original"


@rule(id="BN110", severity=Severity.WARNING, question=Question.BUFFERS, limits={"distinct_values": 8})
def half_precision_statistics(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        if not layer.kind.is_batch:
            continue
        statistics = [t for t in (layer.running_mean, layer.running_var) if t is not None]
        half = next((tensor.dtype for tensor in statistics if tensor.dtype in _HALF), "")
        if half:
            yield _stored_in_half(case.subject, part, layer, half)
        elif grid := _round_trip(statistics, int(case.limits["distinct_values"])):
            yield _hit(part, layer, Severity.NOTE, f"float32 statistics that went through {grid} and back", _SERVE)


def _stored_in_half(description: Description, part: Part, layer: NormLayer, half: str) -> Hit:
    if description.has_optimizer:
        message = f"statistics in {half} in a training checkpoint: small updates are rounded away"
        return _hit(part, layer, Severity.WARNING, message, _TRAIN)
    if _weights_are_wider(part, layer):
        return _hit(part, layer, Severity.WARNING, f"statistics in {half} beside wider weights", _TRAIN)
    return _hit(part, layer, Severity.NOTE, f"statistics in {half}, like the weights", _SERVE)


def _weights_are_wider(part: Part, layer: NormLayer) -> bool:
    if layer.weight is not None:
        return layer.weight.dtype in _WIDE
    return part.carrier is not Carrier.GRAPH and any(dtype in _WIDE for dtype in part.floating_dtypes)


def _hit(part: Part, layer: NormLayer, severity: Severity, message: str, advice: str) -> Hit:
    return Hit(message=message, advice=advice, layer=layer.name, part=part.name, severity=severity)


def _round_trip(statistics: list[StoredTensor], fewest: int) -> str:
    """The half format on whose grid all these float32 values lie; empty: none, or too few values to tell."""
    if not statistics or any(tensor.dtype != "float32" or tensor.values is None for tensor in statistics):
        return ""
    arrays = [tensor.values for tensor in statistics if tensor.values is not None]
    if not all(_may_be_half(value) for array in arrays for value in array.reshape(-1)[:2].tolist()):
        return ""
    for grid in _HALF:
        if all(_on_grid(array, grid) for array in arrays):
            distinct = {value for array in arrays for value in array.reshape(-1).tolist()}
            return grid if len(distinct) >= fewest else ""
    return ""


def _may_be_half(value: float) -> bool:
    """Whether 11 significant bits hold it, as both half formats need. Few values answer for nearly every layer."""
    return (math.frexp(value)[0] * 2048.0).is_integer()


def _on_grid(values: NDArray[np.float64] | NDArray[np.int64], grid: str) -> bool:
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        if grid == "float16":
            return bool((values.astype(np.float16) == values).all())
        single = np.ascontiguousarray(values, dtype=np.float32)
    return bool((single == values).all()) and not (single.view(np.uint32) & 0xFFFF).any()
