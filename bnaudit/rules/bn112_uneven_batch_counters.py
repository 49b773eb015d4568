"""The batch norms of one model have counted different numbers of batches.

## What it finds

Batch norms of one model whose `num_batches_tracked` differ, with how many layers have which count. One note per model.
Readings, the likely ones first:

1. a head shared by k inputs per forward (pyramid levels, siamese branches): k times the others' count;
2. activation checkpointing: the forward is run again for the gradient and counts twice, exactly 2 ×;
3. two forwards per step through a part of the model (generator and discriminator, two views);
4. less likely: a part that was frozen in eval mode for a while, or added later, and counts less;
5. a branch that runs only sometimes.

## Why it matters

Each forward in training mode is also an update. A layer that is updated twice per batch forgets twice as fast: its
effective momentum is 1 − (1 − m)², and its statistics follow fewer batches. A shared head mixes the populations of
its inputs into one mean. A layer with fewer updates may hold statistics of another stage of training.

## Worked arithmetic

Two plain layers and one under `torch.utils.checkpoint`, 50 steps: counters 50, 100, 50.

    momentum 0.1, counted once per batch         weight of the newest batch 0.1
    counted twice                                1 − 0.9² = 0.19
    for 0.1 again under checkpointing            m = 1 − √0.9 = 0.0513

## How to fix

Nothing, if the reading is what you built. For checkpointing set `momentum = 1 - (1 - m) ** 0.5` in the layers inside.
For a shared head with populations that differ, give each input its own norm. For frozen parts see BN501.

## Limits

- Equal counters do not prove equal treatment, and unequal ones are healthy in many detectors.
- Layers that never ran (counter 0, initial statistics) are BN103's; missing or corrupt counters are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Part
from bnaudit.initial_state import LEARNS_STATISTICS, is_virgin, updates
from bnaudit.name_patterns import compress
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_COUNTS_SHOWN = 3
_READINGS = (
    "likely, in this order: a head shared by k inputs, activation checkpointing (2 ×), two forwards per step; "
    "less: frozen for a while, an unused branch"
)


@rule(id="BN112", severity=Severity.NOTE)
def uneven_batch_counters(case: Case) -> Iterator[Hit]:
    """At most one hit per part."""
    for part in case.subject.parts:
        counts: dict[int, list[str]] = {}
        for layer in part.layers:
            count = updates(layer) if layer.kind in LEARNS_STATISTICS else None
            if count is not None and (count or not is_virgin(layer)):
                counts.setdefault(count, []).append(layer.name)
        if len(counts) > 1:
            yield _hit(part, counts)


def _hit(part: Part, counts: dict[int, list[str]]) -> Hit:
    common, *others = sorted(counts, key=lambda count: (-len(counts[count]), count))
    where = _layers(len(counts[common]))
    return Hit(
        message=f"counters differ: {common:,} in {where}, {_listed(part, counts, common, others)}",
        advice=_READINGS,
        part=part.name,
        value=len(counts),
        limit=1,
    )


def _listed(part: Part, counts: dict[int, list[str]], common: int, others: list[int]) -> str:
    names = [layer.name for layer in part.layers]
    shown = []
    for count in others[:_COUNTS_SHOWN]:
        patterns = [pattern or "the model itself" for pattern, _ in compress(counts[count], names)]
        where = patterns[0] if len(patterns) == 1 else _layers(len(counts[count]))
        shown.append(f"{count:,}{_multiple(count, common)} in {where}")
    return ", ".join(shown) + (", …" if len(others) > _COUNTS_SHOWN else "")


def _layers(number: int) -> str:
    return f"{number} layer{'' if number == 1 else 's'}"


def _multiple(count: int, common: int) -> str:
    """` (2 ×)` when the count is a whole multiple of the common one."""
    whole = common and count > common and count % common == 0
    return f" ({count // common} ×)" if whole else ""
