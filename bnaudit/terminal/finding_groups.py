"""Findings grouped by rule and advice, worst first, their layers compressed; notes in a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bnaudit.name_patterns import Universe
from bnaudit.obstacles import failure_text
from bnaudit.printable import printable
from bnaudit.results import Audit, Finding, Severity
from bnaudit.terminal.amounts import plural
from bnaudit.terminal.finding_places import (
    Place,
    bracketed,
    grouped,
    layer_names,
    numbers,
    patterns,
    places,
    qualifiers,
    standing,
)
from bnaudit.terminal.skipped_checks import skipped_checks
from bnaudit.terminal.styles import SEVERITY_STYLES

PLACES_SHOWN = 6
"""Lines of places under one finding before the rest is counted; `--all-layers` shows all."""


def findings(
    console: Console, audit: Audit, in_full: bool, show_accepted: bool = False, with_skipped: bool = True
) -> None:
    """Print the findings, the number of those accepted or themselves too, and what broke or did not run."""
    names = layer_names(audit)
    shown = audit.findings if show_accepted else audit.open_findings
    groups = grouped(shown)
    notes = [] if in_full else [members for members in groups if members[0].severity is Severity.NOTE]
    for members in groups:
        if in_full or members[0].severity > Severity.NOTE:
            _group(console, members, names, in_full)
    for members in notes:
        _note_line(console, members, names)
    if hidden := len(audit.findings) - len(shown):
        console.print(Text(f"{plural(hidden, 'accepted finding')} (--show-accepted lists them)", style="dim"))
    for failed in audit.failed:
        console.print(Text(failure_text(failed), style="bold red"))
    if with_skipped:
        skipped_checks(console, audit, in_full)
    if notes or hidden or audit.failed or (with_skipped and audit.skipped):
        console.print()


def _group(console: Console, members: Sequence[Finding], names: Universe, in_full: bool) -> None:
    first = members[0]
    title = Text(first.severity.label, style=SEVERITY_STYLES[first.severity])
    title.append(f" {first.rule} ", style="bold")
    title.append(first.name)
    for each in qualifiers(first):
        title.append(f"  ({each})", style="dim")
    console.print(title)
    if stands := standing(first):
        console.print(Padding(Text(stands, style="dim" if first.accepted else ""), (0, 0, 0, 2)))
    lines = [_place(place) for place in places(members, names)]
    shown = lines if in_full else lines[:PLACES_SHOWN]
    for line in shown:
        console.print(Padding(line, (0, 0, 0, 2)))
    if len(lines) > len(shown):
        console.print(Padding(Text(f"and {len(lines) - len(shown)} more (--all-layers shows them)"), (0, 0, 0, 2)))
    advice = Text("→ ", style="bold")
    advice.append(printable(first.advice))
    console.print(Padding(advice, (0, 0, 1, 2)))


def _place(place: Place) -> Text:
    """One line: parts in which the same layers are concerned, the layers, what is wrong."""
    line = Text()
    if place.where:
        line.append(place.where, style="bold")
        line.append(f" ×{place.times}  " if place.times > 1 else "  ")
    line.append(place.message)
    return line.append(bracketed(place.numbers), style="dim")


def _note_line(console: Console, members: Sequence[Finding], names: Universe) -> None:
    first = members[0]
    line = Text("note", style=SEVERITY_STYLES[Severity.NOTE])
    line.append(f" {first.rule} {first.name}", style="bold")
    line.append(" (intended)" if first.intended else "")
    if place := patterns(members, names):
        layers = sum(finding.layer is not None for finding in members)
        line.append(f" in {plural(layers, 'layer')}" if len(place) > 30 else f" in {place}")
    line.append(f": {printable(first.message)}{bracketed(numbers(members))}")
    line.truncate(console.width, overflow="ellipsis")
    console.print(line)
