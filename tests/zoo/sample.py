"""The seeded sample that is also audited live, as TorchScript, .pt2 and ONNX."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

LARGEST = 10_000_000
"""Parameters: exporting and running a larger net four times takes minutes."""


def choose(records: Iterable[dict[str, Any]], count: int, seed: int) -> list[str]:
    """Names, half with and half without batch norm where there are so many, spread over the families.

    Each family gives one before any gives a second. `records` need `name`, `family`, `parameters` and `tracking`.
    """
    fitting = sorted((r for r in records if r["parameters"] <= LARGEST), key=lambda record: record["name"])
    strata = [_spread([r for r in fitting if bool(r["tracking"]) is with_bn], seed) for with_bn in (True, False)]
    return sorted(_alternating(strata, count))


def _spread(records: list[dict[str, Any]], seed: int) -> list[str]:
    """All names, in turns over the families; both stand in an order of chance that one more or fewer does not upset."""
    families: dict[str, list[str]] = {}
    for record in records:
        families.setdefault(record["family"], []).append(record["name"])
    order = sorted(families, key=lambda name: Random(f"{seed}:{name}").random())
    for members in families.values():
        members.sort(key=lambda name: Random(f"{seed}:{name}").random())
    longest = max((len(members) for members in families.values()), default=0)
    return [families[name][turn] for turn in range(longest) for name in order if turn < len(families[name])]


def _alternating(strata: list[list[str]], count: int) -> list[str]:
    queues = [list(reversed(stratum)) for stratum in strata]
    chosen: list[str] = []
    while len(chosen) < count and any(queues):
        for queue in queues:
            if queue and len(chosen) < count:
                chosen.append(queue.pop())
    return chosen
