"""Findings as people read them, in plain words: grouped by rule and advice, their layers compressed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bnaudit.name_patterns import Universe, compress
from bnaudit.printable import printable
from bnaudit.results import Audit, Confidence, Finding
from bnaudit.terminal.amounts import number


class Place(NamedTuple):
    """Where one message holds."""

    where: str
    """Parts and layers compressed, `layer{1..4}.0.bn1`; "" for the whole artifact."""
    times: int
    """Findings that it stands for."""
    message: str
    numbers: str
    """`3 … 12, limit 1`, or ""."""

    @property
    def line(self) -> str:
        """`bn{1,2} ×2  mean is 0 [3, limit 1]`."""
        times = f" ×{self.times}" if self.times > 1 else ""
        said = self.message + bracketed(self.numbers)
        return f"{self.where}{times}  {said}" if self.where else said


def layer_names(audit: Audit) -> Universe:
    """All names that findings of this audit may have, for patterns that mean no other layer."""
    named = [layer.name for _, layer in audit.description.layers]
    named += [other.name for part in audit.description.parts for other in part.mode_dependent]
    return Universe(named)


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one rule, severity, confidence, advice and standing together, in the order of their first."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        kind = (
            finding.rule,
            finding.severity,
            finding.confidence,
            finding.advice,
            finding.intended,
            standing(finding),
        )
        groups.setdefault(kind, []).append(finding)
    return list(groups.values())


def qualifiers(finding: Finding) -> list[str]:
    """What tempers it: `intended`, `medium confidence`; none for most."""
    intended = ["intended"] if finding.intended else []
    sure = finding.confidence is Confidence.HIGH
    return intended if sure else [*intended, f"{finding.confidence.label} confidence"]


def standing(finding: Finding) -> str:
    """By what it is accepted, or no longer is; "" for most."""
    accepted = finding.acceptance
    if accepted is None:
        return ""
    reason = f" ({printable(accepted.reason)})" if accepted.reason else ""
    if accepted.expired:
        return f"was accepted until {printable(accepted.until)}{reason}: {printable(accepted.source)}"
    until = f" until {printable(accepted.until)}" if accepted.until else ""
    return f"accepted{until}{reason}: {printable(accepted.source)}"


def places(members: Sequence[Finding], names: Universe) -> list[Place]:
    """The members by their message, parts that are alike in one place."""
    together = alike(members)
    return [Place(_where(same, names), len(same), printable(same[0].message), numbers(same)) for same in together]


def alike(members: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one message together, and those of parts in which the same layers have it."""
    by_message: dict[tuple[str, str], list[Finding]] = {}
    for finding in members:
        by_message.setdefault((finding.part, finding.message), []).append(finding)
    found: dict[tuple[str, tuple[str | None, ...]], list[Finding]] = {}
    for (_, message), same in by_message.items():
        found.setdefault((message, tuple(finding.layer for finding in same)), []).extend(same)
    return list(found.values())


def patterns(findings: Iterable[Finding], names: Universe) -> str:
    """The layers of findings, compressed; "" where all are on the whole artifact."""
    layers = dict.fromkeys(finding.layer for finding in findings if finding.layer is not None)
    return printable(", ".join(pattern or "(root)" for pattern, _ in compress(layers, names)))


def numbers(findings: Sequence[Finding]) -> str:
    """The numbers found and their limit, `3 … 12, limit 1`; "" where the message has them."""
    # Words among the values repeat the message; they are for programs. So are counts of what it lists.
    values = [finding.value for finding in findings if isinstance(finding.value, (int, float))]
    limits = {finding.limit for finding in findings if isinstance(finding.limit, (int, float))}
    counts_only = not limits and all(isinstance(value, int) for value in values)
    if not values or counts_only or (len(findings) == 1 and number(values[0]) in findings[0].message.split()):
        return ""
    low, high = min(values), max(values)
    shown = number(low) if low == high or low != low else f"{number(low)} … {number(high)}"
    limit = f", limit {number(limits.pop())}" if len(limits) == 1 else ""
    return shown + limit


def bracketed(numbers: str) -> str:
    """` [3 … 12, limit 1]`, to stand behind a message; "" without numbers."""
    return f" [{numbers}]" if numbers else ""


def part_names(parts: Sequence[str], universe: Sequence[str]) -> str:
    """The names of parts, compressed."""
    found = [pattern for pattern, _ in compress(parts, universe)]
    return ", ".join(printable(pattern) or "(the file itself)" for pattern in found)


def _where(same: Sequence[Finding], names: Universe) -> str:
    parts = list(dict.fromkeys(finding.part for finding in same))
    layers = patterns(same, names)
    if not layers and parts == [""]:
        return ""
    within = "" if parts == [""] else part_names(parts, parts)
    return f"{within}: {layers}" if within and layers else within or layers
