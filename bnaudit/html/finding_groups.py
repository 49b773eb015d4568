"""Findings as the terminal groups them: by rule and advice, worst first, their layers compressed, all of them below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bnaudit.name_patterns import Universe
from bnaudit.results import Acceptance, Audit, Finding
from bnaudit.terminal.finding_places import alike, grouped, layer_names, numbers, part_names, patterns


class Place(NamedTuple):
    """Layers with one and the same fault."""

    parts: str
    layers: str
    """Compressed; "" for a whole artifact."""
    times: int
    message: str
    numbers: str
    """`0 … 5, limit 1`, "" where the message says it all."""
    channels: str
    """`channels 3, 1`, worst first."""


class Group(NamedTuple):
    """One rule's findings with one advice and one standing."""

    first: Finding
    places: tuple[Place, ...]
    members: tuple[Finding, ...]

    @property
    def lists_members(self) -> bool:
        """Whether the places leave something out that a list of all findings says."""
        return len(self.members) > len(self.places)

    @property
    def standing(self) -> Acceptance | None:
        """By which it is accepted, or was."""
        return self.first.acceptance


def groups(audit: Audit, findings: Iterable[Finding]) -> tuple[Group, ...]:
    """The findings of an audit, or some of them, in groups, worst first."""
    names = layer_names(audit)
    worst_first = sorted(findings, key=lambda each: -each.severity)
    return tuple(
        Group(members[0], tuple(_place(same, names) for same in alike(members)), tuple(members))
        for members in grouped(worst_first)
    )


def _place(same: Sequence[Finding], names: Universe) -> Place:
    parts = list(dict.fromkeys(finding.part for finding in same))
    return Place(
        parts="" if parts == [""] else part_names(parts, parts),
        layers=patterns(same, names),
        times=len(same),
        message=same[0].message,
        numbers=numbers(same),
        channels=_channels(same[0]) if len(same) == 1 else "",
    )


def _channels(finding: Finding) -> str:
    listed = ", ".join(map(str, finding.channels))
    return f"{'channel' if len(finding.channels) == 1 else 'channels'} {listed}" if listed else ""
