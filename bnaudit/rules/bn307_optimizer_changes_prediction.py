"""The framework's own optimizations change the outputs beyond rounding.

## What it finds

The batch is run plainly (onnxruntime without graph optimizations, a compiled PyTorch module in eager mode), which
decides all other questions, and once as production would run it: onnxruntime with its default optimizations,
`torch.compile` compiled. The two differ by more than 64 rounding steps of the outputs' scale, **and** by more than 4
times what rounding does to the plain computation, which is run once more in float64 to see it.

## Why it matters

What was validated is not what is served. Fused operators may compute something else for a corner case, and nothing but
the numbers tells.

## Worked arithmetic

64 rounding steps in float32 are 64 · 2⁻²³ = 7.6e-6 of the outputs' largest value. Fusing changes the order of sums and
stays below: a convolution with its batch norm folded in differs by about 3e-6. A fused operator that takes its
statistics from the wrong place differs by a good part of the value itself.

In a deep net the rounding of one layer is amplified by those behind it. Two orders of sums that are each 3e-5 away from
the float64 result may be 6e-5 apart: rounding, silent. The wrong statistics stay as far off as they were.

One case that was measured: with optimizations on, onnxruntime 1.32 computes a BatchNormalization in training form
wrongly when gamma equals the variance bit by bit, and its outputs drift from run to run.

## How to fix

Serve without the optimization until the cause is found:

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession("model.onnx", options)

(`ORT_ENABLE_BASIC` in place of `ORT_DISABLE_ALL` tells whether the basic or the extended set is at fault; for PyTorch
run the module that was compiled, or `torch.compile(model, backend="aot_eager")`.) Then report it upstream with the
model.

## Limits

- One batch was compared; optimizations may go wrong on other shapes and values.
- Where float64 cannot be run (memory, operators without it), 64 rounding steps alone decide.
- A model that draws random numbers draws others when compiled: not checked.
- Reduced precision that is switched on by hand (float16 arithmetic, TF32) is an optimization too and is reported
  alike.
- Graphs that were optimized before they were saved are what they are: there is nothing to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.measurement import Production, Repeat, Swap
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value


@rule(id="BN307", severity=Severity.WARNING, limits={"epsilons": NOISE, "roundings": 4.0}, needs=("production",))
def optimizer_changes_prediction(case: Case) -> Iterator[Hit]:
    """One hit on the artifact for each form that production may run."""
    if case.measured is None or any(swap.seeded for swap in case.measured.of(Swap)):
        return
    if any(beyond(repeat.restored, NOISE) for repeat in case.measured.of(Repeat)):
        return
    for found in case.measured.of(Production):
        if beyond(found.shift, case.limits["epsilons"]) and not _is_rounding(found, case.limits["roundings"]):
            size = f"{amount(found.shift)}{flips(found.shift)}"
            yield Hit(
                message=f"{found.form} and the plain computation differ {size}",
                advice="serve without this optimization until the operator at fault is found",
                value=value(found.shift),
                limit=limit(found.shift, case.limits["epsilons"]),
            )


def _is_rounding(found: Production, roundings: float) -> bool:
    """Whether the plain computation is itself so far from float64's that two orders of sums may be this far apart."""
    plain = found.rounding
    if plain is None or plain.shapes or not math.isfinite(plain.difference):
        return False
    return found.shift.difference <= roundings * plain.difference
