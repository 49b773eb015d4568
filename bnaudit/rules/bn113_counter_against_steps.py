"""The batch counters are a multiple, or a fraction, of the steps that the checkpoint records.

## What it finds

A checkpoint with a step count (`global_step`, the optimizer's `step`) in which every batch norm has counted k times as
many batches, or k times fewer, for a whole k from 2 to 64. One note per model. More batches than steps:

- gradient accumulation over k batches: k updates of the statistics per optimizer step;
- two forwards per step (two views, generator and discriminator), or activation checkpointing of the whole model;
- validation in training mode: its batches count, and enter the statistics.

Fewer batches than steps: several optimizers whose steps are counted together, steps counted in micro-batches, or a
model that was in eval mode for most of its training.

## Why it matters

The statistics follow forwards, not optimizer steps. With accumulation over k batches each one is normalized alone,
with its own N · H · W values: accumulation does not make the batch larger for a norm. Validation in training mode
writes validation data into the model that is then validated.

## Worked arithmetic

    global_step 10,000, counters 40,000     k = 4: accumulate_grad_batches = 4
    global_step 10,000, counters 20,000     k = 2: two forwards per step, or checkpointing
    global_step 10,000, counters 12,500     1.25: no whole k; an evaluation after every 4 steps looks like this
    global_step 20,000, counters 10,000     1/2: two optimizers, each step counted

## How to fix

Nothing, if the factor is what you built. Otherwise call `model.eval()` for validation and `model.train()` after it,
and compare the counters before and after an epoch:

    before = model.bn1.num_batches_tracked.item(); run_epoch(); print(model.bn1.num_batches_tracked.item() - before)

## Limits

- Within 1 % of a whole k; from k = 26 on within a quarter of a batch, because everything is near some large k.
- The layers must agree with each other: where they do not, BN112 speaks.
- Weights that were fine-tuned from others keep the old counter; then the ratio means nothing and is rarely whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bnaudit.description import Part
from bnaudit.initial_state import LEARNS_STATISTICS, is_virgin, updates
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_NEAREST_BATCH = 0.25


@rule(id="BN113", severity=Severity.NOTE, limits={"tolerance": 0.01, "largest_factor": 64})
def counter_against_steps(case: Case) -> Iterator[Hit]:
    """At most one hit per part."""
    steps = case.subject.steps
    if steps is None or steps <= 0:
        return
    for part in case.subject.parts:
        counters = _counters(part)
        factors = {_factor(counter, steps, case.limits) for counter in counters}
        if len(factors) == 1 and (factor := factors.pop()):
            yield _hit(part, max(counters), steps, case.subject.steps_name, *factor)


def _counters(part: Part) -> list[int]:
    """Those of the layers that ran; one that says nothing leaves the part undecided, and the list empty."""
    counters = []
    for layer in part.layers:
        if layer.kind in LEARNS_STATISTICS and not (updates(layer) == 0 and is_virgin(layer)):
            count = updates(layer)
            if not count:
                return []
            counters.append(count)
    return counters


def _factor(counter: int, steps: int, limits: Mapping[str, float]) -> tuple[int, bool] | None:
    """The whole k and whether there are more batches than steps; None: no whole k."""
    more = counter > steps
    ratio = counter / steps if more else steps / counter
    whole = round(ratio)
    if not 2 <= whole <= limits["largest_factor"]:
        return None
    return (whole, more) if abs(ratio - whole) <= min(limits["tolerance"] * whole, _NEAREST_BATCH) else None


def _hit(part: Part, counter: int, steps: int, steps_name: str, factor: int, more: bool) -> Hit:
    relation = f"{factor} × the steps" if more else f"1/{factor} of the steps"
    recorded = f"{steps_name} {steps:,}" if steps_name else f"{steps:,} steps"
    more_advice = "likely: gradient accumulation, two forwards per step, or validation in training mode"
    fewer_advice = "likely: several optimizers counted together, or eval mode during most of the training"
    return Hit(
        message=f"all batch counters are {relation}: {counter:,} batches, {recorded}",
        advice=more_advice if more else fewer_advice,
        part=part.name,
        value=f"{factor} ×" if more else f"1/{factor} ×",
        limit="1 ×",
    )
