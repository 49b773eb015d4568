"""Counts the records of the zoo."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

from zoo.exceptions import CRASH, counted, reason

Record = dict[str, Any]


class Totals(NamedTuple):
    """What the zoo prints. A crash, a false alarm, an unseen layer or a fault that was missed fails it."""

    architectures: int
    """All that there are."""
    audited: int
    artifacts: int
    layers: int
    """Norm layers in all artifacts."""
    false_alarms: int
    crashes: int
    unseen: int
    """Batch norms that an audit did not list."""
    planted: int
    found: int
    located: int
    seconds: tuple[float, float, float]
    """Of one audit: median, ninth decile, largest."""

    @property
    def failed(self) -> bool:
        """Whether there is anything to be ashamed of."""
        missed = self.planted - min(self.found, self.located)
        return bool(self.false_alarms or self.crashes or self.unseen or missed)


def total(records: Iterable[Record], tasks: set[str] | None = None) -> Totals:
    """Counts over the records of some tasks; None: of all."""
    kept = [record for record in records if tasks is None or record["task"] in tasks]
    artifacts = [artifact for record in kept for artifact in record.get("artifacts", {}).values()]
    planted = [artifact for artifact in artifacts if "planted" in artifact]
    crashes = sum(bool(artifact["crash"]) for artifact in artifacts)
    return Totals(
        architectures=len({record["name"] for record in kept}),
        audited=len({record["name"] for record in kept if record.get("artifacts")}),
        artifacts=len(artifacts),
        layers=sum(artifact["layers"] for artifact in artifacts),
        false_alarms=sum(len(artifact["false_alarms"]) for artifact in artifacts),
        crashes=crashes + sum(reason(record) == CRASH for record in kept),
        unseen=sum(len(artifact.get("unseen", ())) for artifact in artifacts),
        planted=len(planted),
        found=sum(artifact["found"] for artifact in planted),
        located=sum(artifact["located"] for artifact in planted),
        seconds=_spread([artifact["seconds"] for artifact in artifacts]),
    )


def _spread(seconds: list[float]) -> tuple[float, float, float]:
    if not seconds:
        return (0.0, 0.0, 0.0)
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))], ordered[-1]


def rules_planted(records: Iterable[Record]) -> dict[str, tuple[int, int, int]]:
    """Rule → (planted, found, located)."""
    counts: dict[str, list[int]] = {}
    for record in records:
        for artifact in record.get("artifacts", {}).values():
            if "planted" in artifact:
                of_rule = counts.setdefault(artifact["rule"], [0, 0, 0])
                of_rule[0] += 1
                of_rule[1] += artifact["found"]
                of_rule[2] += artifact["located"]
    return {rule: (planted, found, located) for rule, (planted, found, located) in sorted(counts.items())}


def shames(records: Iterable[Record]) -> list[str]:
    """A line for each false alarm, crash, unseen layer and missed fault."""
    return [line for record in records for line in _of_record(record)]


def _of_record(record: Record) -> Iterable[str]:
    where = f"{record['name']} ({record['task']}"
    if reason(record) == CRASH:
        yield f"{where}): crash: {record.get('broke') or record.get('killed')}"
    for kind, artifact in record.get("artifacts", {}).items():
        place = f"{where}, {kind})"
        if artifact["crash"]:
            yield f"{place}: crash: {artifact['crash']}"
        yield from (f"{place}: {line}" for line in _alarms(artifact["false_alarms"]))
        if artifact.get("unseen"):
            yield f"{place}: {len(artifact['unseen'])} batch norms not listed, first {artifact['unseen'][0]}"
        if "planted" in artifact and not (artifact["found"] and artifact["located"]):
            how = "not located" if artifact["found"] else "missed"
            yield f"{place}: {how}: {artifact['planted']} ({artifact['rule']}) in {', '.join(artifact['where'])}"


def exceptions(records: Iterable[Record]) -> dict[str, list[str]]:
    """Class → names of what was not audited, crashes left out, with what could not be moved."""
    records = list(records)
    classes = {why: names for why, names in counted(records).items() if why != CRASH}
    unmoved = [f"{record['name']}: {record['unmoved']}" for record in records if "unmoved" in record]
    if unmoved:
        classes["no forward in training mode works, so only the fresh state was audited"] = unmoved
    return classes


def _alarms(alarms: list[Record]) -> Iterable[str]:
    """A line per rule: how many layers, and what the first was told."""
    by_rule: dict[str, list[Record]] = {}
    for alarm in alarms:
        by_rule.setdefault(alarm["rule"], []).append(alarm)
    for rule, same in by_rule.items():
        first = same[0]
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        yield f"false {first['severity']} {rule} {first['layer']}{more}: {first['message']}"
