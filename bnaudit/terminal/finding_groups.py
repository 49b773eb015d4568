"""Findings grouped by rule and advice, worst first, their layers compressed; notes in a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bnaudit.name_patterns import Universe, compress
from bnaudit.printable import printable
from bnaudit.results import Audit, Finding, Severity
from bnaudit.terminal.amounts import number, plural
from bnaudit.terminal.ledger_table import part_names
from bnaudit.terminal.skipped_checks import skipped_checks
from bnaudit.terminal.styles import SEVERITY_STYLES

PLACES_SHOWN = 6
"""Lines of places under one finding before the rest is counted; `--all-layers` shows all."""


def findings(
    console: Console, audit: Audit, in_full: bool, show_accepted: bool = False, with_skipped: bool = True
) -> None:
    """Print the findings, the number of those accepted or themselves too, and what broke or did not run."""
    named = [layer.name for _, layer in audit.description.layers]
    named += [other.name for part in audit.description.parts for other in part.mode_dependent]
    names = Universe(named)
    groups: dict[tuple[str, Severity, str, bool, str], list[Finding]] = {}
    shown = audit.findings if show_accepted else audit.open_findings
    for finding in shown:
        kind = (finding.rule, finding.severity, finding.advice, finding.intended, _standing(finding))
        groups.setdefault(kind, []).append(finding)
    notes = []
    for (_, severity, *_), members in groups.items():
        if severity is Severity.NOTE and not in_full:
            notes.append(members)
        else:
            _group(console, members, names, in_full)
    for members in notes:
        _note_line(console, members, names)
    if hidden := len(audit.findings) - len(shown):
        console.print(Text(f"{plural(hidden, 'accepted finding')} (--show-accepted lists them)", style="dim"))
    for failed in audit.failed:
        broken = printable(f"internal failure in {failed.rule} {failed.name}: {failed.error}".replace("  ", " "))
        console.print(Text(broken, style="bold red"))
    if with_skipped:
        skipped_checks(console, audit, in_full)
    if notes or hidden or audit.failed or (with_skipped and audit.skipped):
        console.print()


def _group(console: Console, members: Sequence[Finding], names: Universe, in_full: bool) -> None:
    first = members[0]
    title = Text(first.severity.label, style=SEVERITY_STYLES[first.severity])
    title.append(f" {first.rule} ", style="bold")
    title.append(first.name)
    if first.intended:
        title.append("  (intended)", style="dim")
    if first.confidence.label != "high":
        title.append(f"  ({first.confidence.label} confidence)", style="dim")
    console.print(title)
    if standing := _standing(first):
        console.print(Padding(Text(standing, style="dim" if first.accepted else ""), (0, 0, 0, 2)))
    lines = _places(members, names)
    shown = lines if in_full else lines[:PLACES_SHOWN]
    for line in shown:
        console.print(Padding(line, (0, 0, 0, 2)))
    if len(lines) > len(shown):
        console.print(Padding(Text(f"and {len(lines) - len(shown)} more (--all-layers shows them)"), (0, 0, 0, 2)))
    advice = Text("→ ", style="bold")
    advice.append(printable(first.advice))
    console.print(Padding(advice, (0, 0, 1, 2)))


def _standing(finding: Finding) -> str:
    """By what it is accepted, or no longer is; "" for most."""
    accepted = finding.acceptance
    if accepted is None:
        return ""
    reason = f" ({printable(accepted.reason)})" if accepted.reason else ""
    if accepted.expired:
        return f"was accepted until {accepted.until}{reason}: {printable(accepted.source)}"
    until = f" until {accepted.until}" if accepted.until else ""
    return f"accepted{until}{reason}: {printable(accepted.source)}"


def _places(members: Sequence[Finding], names: Universe) -> list[Text]:
    by_message: dict[tuple[str, str], list[Finding]] = {}
    for finding in members:
        by_message.setdefault((finding.part, finding.message), []).append(finding)
    alike: dict[tuple[str, tuple[str | None, ...]], list[Finding]] = {}
    for (_, message), same in by_message.items():
        alike.setdefault((message, tuple(finding.layer for finding in same)), []).extend(same)
    return [_place(message, same, names) for (message, _), same in alike.items()]


def _place(message: str, same: Sequence[Finding], names: Universe) -> Text:
    """One line: parts in which the same layers are concerned, the layers, what is wrong."""
    parts = list(dict.fromkeys(finding.part for finding in same))
    layers = list(dict.fromkeys(finding.layer for finding in same if finding.layer is not None))
    line = Text()
    if layers or parts != [""]:
        within = "" if parts == [""] else part_names(parts, parts)
        place = ", ".join((pattern or "(root)") for pattern, _ in compress(layers, names))
        line.append(f"{within}: {printable(place)}" if within and place else within or printable(place), style="bold")
        line.append(f" ×{len(same)}  " if len(same) > 1 else "  ")
    line.append(printable(message))
    line.append(_numbers(same), style="dim")
    return line


def _numbers(findings: Sequence[Finding]) -> str:
    # Words among the values repeat the message; they are for programs. So are counts of what it lists.
    values = [finding.value for finding in findings if isinstance(finding.value, (int, float))]
    limits = {finding.limit for finding in findings if isinstance(finding.limit, (int, float))}
    counts_only = not limits and all(isinstance(value, int) for value in values)
    if not values or counts_only or (len(findings) == 1 and number(values[0]) in findings[0].message.split()):
        return ""
    low, high = min(values), max(values)
    shown = number(low) if low == high or low != low else f"{number(low)} … {number(high)}"
    limit = f", limit {number(limits.pop())}" if len(limits) == 1 else ""
    return f" [{shown}{limit}]"


def _note_line(console: Console, members: Sequence[Finding], names: Universe) -> None:
    first = members[0]
    line = Text("note", style=SEVERITY_STYLES[Severity.NOTE])
    line.append(f" {first.rule} {first.name}", style="bold")
    line.append(" (intended)" if first.intended else "")
    layers = [finding.layer for finding in members if finding.layer is not None]
    if layers:
        patterns = [pattern or "(root)" for pattern, _ in compress(layers, names)]
        place = printable(", ".join(patterns))
        line.append(f" in {len(layers)} layers" if len(place) > 30 else f" in {place}")
    line.append(f": {printable(first.message)}{_numbers(members)}")
    line.truncate(console.width, overflow="ellipsis")
    console.print(line)
