"""The report as a person reads it in a terminal: verdicts, ledger, findings, and the shortest possible healthy case."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnaudit.name_patterns import Universe, compress
from bnaudit.printable import printable
from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, Finding, LedgerRow, Outcome, Question, Report, Severity

OUTCOME_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NOT_CHECKED: "dim",
}
SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
PLACES_SHOWN = 6
"""Lines of places under one finding before the rest is counted; `--all-layers` shows all."""


def render(report: Report, view: View) -> str:
    """Plain text, with ANSI styles when the view has colour."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=view.width,
        force_terminal=view.color,
        color_system="standard" if view.color else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    shown = [audit for audit in report.audits if len(report.audits) == 1 or view.in_full or _is_notable(audit)]
    for audit in shown:
        _heading(console, audit)
        if len(report.audits) == 1 or view.in_full:
            _alarms(console, audit)
            _verdicts(console, audit)
            _ledger(console, audit)
        _findings(console, audit, view)
    if len(report.audits) + len(report.unaudited) > 1 or not report.audits:
        _summary(console, report)
    _last_line(console, report, view)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _is_notable(audit: Audit) -> bool:
    worst = max((finding.severity for finding in audit.findings), default=Severity.NOTE)
    return worst >= Severity.WARNING or bool(audit.failed) or not audit.looked


def _heading(console: Console, audit: Audit) -> None:
    artifact = audit.artifact
    console.print(Text(printable(artifact.path), style="bold"))
    about = [artifact.format]
    if artifact.producer:
        about.append(printable(artifact.producer))
    read = "all" if artifact.bytes_read >= artifact.size else _bytes(artifact.bytes_read)
    about.append(f"{_bytes(artifact.size)}, {read} read")
    console.print(Text(" · ".join(about), style="dim"))
    for remark in audit.description.remarks:
        console.print(Text(printable(remark)))
    console.print()


def _alarms(console: Console, audit: Audit) -> None:
    """Errors that no verdict speaks of stand above the verdicts: a report must not open with `passed` then."""
    unspoken = (f for f in audit.findings if f.severity is Severity.ERROR and f.question is None)
    first = {finding.rule: finding for finding in reversed(list(unspoken))}
    for finding in first.values():
        line = Text(f"error {finding.rule} {finding.name}: {printable(finding.message)}", style="bold red")
        line.truncate(console.width, overflow="ellipsis")
        console.print(line)
    if first:
        console.print()


def _verdicts(console: Console, audit: Audit) -> None:
    table = Table.grid(padding=(0, 2))
    for verdict in audit.verdicts:
        reason = printable(verdict.reason)
        table.add_row(Text(verdict.outcome.value, OUTCOME_STYLES[verdict.outcome]), verdict.question.claim, reason)
    console.print(Padding(table, (0, 0, 0, 2)))
    needs = list(dict.fromkeys(verdict.needs for verdict in audit.verdicts if verdict.needs))
    if needs:
        longest = max(needs, key=len)
        console.print(
            Padding(
                Text(f"What is not checked needs {longest}; this version reads files only.", style="dim"), (0, 0, 0, 2)
            )
        )
    console.print()


def _ledger(console: Console, audit: Audit) -> None:
    if not audit.ledger:
        folded = [part.folded for part in audit.description.parts if part.folded]
        hidden = sum(len(part.hidden) for part in audit.description.parts)
        message = "No norm layers."
        if folded:
            message = f"No norm layers: {folded[0]}"
        elif hidden:
            message = f"No norm layers where eval() and state_dict() reach; {_plural(hidden, 'module')} out of reach."
        console.print(Padding(Text(printable(message)), (0, 0, 1, 2)))
        return
    by_part: dict[str, list[LedgerRow]] = {}
    for row in audit.ledger:
        by_part.setdefault(row.part, []).append(row)
    alike: dict[tuple[object, ...], list[str]] = {}
    for part, rows in by_part.items():
        alike.setdefault(tuple(map(_without_part, rows)), []).append(part)
    for parts in alike.values():
        if len(by_part) > 1:
            title = "part" if len(parts) == 1 else f"{len(parts)} parts alike:"
            console.print(Text(f"  {title} {_part_names(parts, list(by_part))}", style="bold"))
        console.print(Padding(_ledger_table(by_part[parts[0]], console.width - 2), (0, 0, 0, 2)))
    _ledger_notes(console, audit.ledger)


def _without_part(row: LedgerRow) -> tuple[object, ...]:
    shown = (row.label, len(row.layers), row.kind, row.channels, row.counter, row.residual, row.mode, row.state)
    return (*shown, row.eps, row.momentum)


def _part_names(parts: Sequence[str], universe: Sequence[str]) -> str:
    patterns = [pattern for pattern, _ in compress(parts, universe)]
    return ", ".join(printable(pattern) or "(the file itself)" for pattern in patterns)


def _ledger_table(rows: Sequence[LedgerRow], width: int) -> Table:
    assumed = any(row.residual is not None and not row.momentum for row in rows)
    same_kind = len({row.kind for row in rows}) == 1
    same_mode = len({row.mode for row in rows}) == 1
    # Right-aligned columns hold numbers. A column without a word in it is left out: 80 characters are few.
    columns: list[tuple[str, list[str], bool]] = [
        ("kind", [] if same_kind else [row.kind for row in rows], False),
        ("channels", [_span(row.channels) for row in rows], True),
        ("batches", [_span(row.counter) for row in rows], True),
        ("initial*" if assumed else "initial", [_share(row.residual) for row in rows], True),
        ("mode", [] if same_mode else [row.mode for row in rows], False),
        ("saved", [row.state for row in rows], False),
    ]
    kept = [column for column in columns if any(column[1])]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    taken = sum(max(len(title), *map(len, cells)) + 2 for title, cells, _ in kept)
    table.add_column(
        f"{rows[0].kind} norm" if same_kind else "layer", overflow="fold", max_width=max(width - taken, 20)
    )
    for title, _, is_number in kept:
        table.add_column(title, justify="right" if is_number else "left", no_wrap=is_number)
    for position, row in enumerate(rows):
        label = Text(printable(row.label) or "(root)")
        label.append(f" ×{len(row.layers)}" if len(row.layers) > 1 else "", style="dim")
        table.add_row(
            label,
            *(cells[position] for _, cells, _ in kept),
            style="" if row.state in ("complete", "no counter", "affine only") else "yellow",
        )
    return table


def _share(residual: float | None) -> str:
    if residual is None:
        return ""
    return "< 0.1 %" if residual < 0.001 else f"{residual * 100:.1f} %"


def _ledger_notes(console: Console, rows: Iterable[LedgerRow]) -> None:
    rows = list(rows)
    modes = {row.mode for row in rows}
    notes = [f"mode: {modes.pop()}"] if len(modes) == 1 else []
    if any(row.residual is not None and not row.momentum for row in rows):
        notes.append("* share of the initial 0 and 1 left; momentum taken as 0.1, not in the file")
    unsaid = [row for row in rows if row.eps is None and row.needs_exact_eps is not None]
    total = sum(len(row.layers) for row in unsaid)
    critical = sum((row.needs_exact_eps or 0) * len(row.layers) for row in unsaid)
    if total and critical / total >= 0.05:
        notes.append(
            f"{critical / total * 100:.0f} % of channels need the exact epsilon, which is not in the file: "
            "1e-3 for 1e-5 moves their gain by > 10 %"
        )
    for note in notes:
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    console.print()


def _findings(console: Console, audit: Audit, view: View) -> None:
    named = [layer.name for _, layer in audit.description.layers]
    named += [other.name for part in audit.description.parts for other in part.mode_dependent]
    names = Universe(named)
    groups: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in audit.findings:
        groups.setdefault((finding.rule, finding.severity, finding.advice), []).append(finding)
    notes = []
    for (_, severity, _), members in groups.items():
        if severity is Severity.NOTE and not view.in_full:
            notes.append(members)
        else:
            _group(console, members, names, view)
    for members in notes:
        _note_line(console, members, names)
    for failed in audit.failed:
        console.print(Text(f"internal failure in {failed.rule} {failed.name}: {failed.error}", style="bold red"))
    for skipped in audit.skipped:
        console.print(Text(f"{skipped.rule} {skipped.name} did not run: it needs {skipped.needs}", style="dim"))
    if notes or audit.failed or audit.skipped:
        console.print()


def _group(console: Console, members: Sequence[Finding], names: Universe, view: View) -> None:
    first = members[0]
    title = Text(first.severity.label, style=SEVERITY_STYLES[first.severity])
    title.append(f" {first.rule} ", style="bold")
    title.append(first.name)
    if first.confidence.label != "high":
        title.append(f"  ({first.confidence.label} confidence)", style="dim")
    console.print(title)
    lines = _places(members, names)
    shown = lines if view.in_full else lines[:PLACES_SHOWN]
    for line in shown:
        console.print(Padding(line, (0, 0, 0, 2)))
    if len(lines) > len(shown):
        console.print(Padding(Text(f"and {len(lines) - len(shown)} more (--all-layers shows them)"), (0, 0, 0, 2)))
    advice = Text("→ ", style="bold")
    advice.append(printable(first.advice))
    console.print(Padding(advice, (0, 0, 1, 2)))


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
        within = "" if parts == [""] else _part_names(parts, parts)
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
    layers = [finding.layer for finding in members if finding.layer is not None]
    if layers:
        patterns = [pattern or "(root)" for pattern, _ in compress(layers, names)]
        place = printable(", ".join(patterns))
        line.append(f" in {len(layers)} layers" if len(place) > 30 else f" in {place}")
    line.append(f": {printable(first.message)}{_numbers(members)}")
    line.truncate(console.width, overflow="ellipsis")
    console.print(line)


def _summary(console: Console, report: Report) -> None:
    folder = _folder(report)
    if report.audits:
        if folder:
            console.print(Text(f"in {printable(folder)}", style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
        table.add_column("artifact", overflow="fold")
        table.add_column("found")
        table.add_column("verdicts", no_wrap=True)
        for audit in report.audits:
            found = Text(", ").join(
                Text(counted, SEVERITY_STYLES[severity]) for severity, counted in _counts(audit.findings)
            )
            signs = Text(" ").join(Text(_SIGNS[v.outcome], OUTCOME_STYLES[v.outcome]) for v in audit.verdicts)
            table.add_row(printable(_below(audit.artifact.path, folder)), found, signs)
        console.print(table)
        console.print(Text(f"verdicts: {', '.join(question.value for question in Question)}", style="dim"))
        console.print(Text("+ passed, - failed, ? inconclusive, . not checked", style="dim"))
        console.print()
    for unaudited in report.unaudited:
        style, word = ("bold red", "error") if unaudited.error else ("yellow", "not audited")
        line = Text(f"{word} ", style=style)
        if unaudited.path not in unaudited.why:
            line.append(f"{printable(_below(unaudited.path, folder))}: ", style="bold")
        line.append(printable(unaudited.why))
        console.print(line)
    if report.other_files:
        console.print(Text(f"{_plural(report.other_files, 'other file')}: not a model", style="dim"))


_SIGNS = {Outcome.PASSED: "+", Outcome.FAILED: "-", Outcome.INCONCLUSIVE: "?", Outcome.NOT_CHECKED: "."}


def _folder(report: Report) -> str:
    """The folder that all paths share, "" when it is the working directory or there is none."""
    paths = [*(audit.artifact.path for audit in report.audits), *(entry.path for entry in report.unaudited)]
    parents = {str(Path(path).parent) for path in paths}
    if len(paths) < 2 or len({Path(parent).anchor for parent in parents}) > 1:
        return ""
    shared = os.path.commonpath(parents) if "." not in parents else ""
    return "" if shared == "." else shared


def _below(path: str, folder: str) -> str:
    return str(Path(path).relative_to(folder)) if folder and Path(path).is_relative_to(folder) else path


def _counts(findings: Iterable[Finding]) -> list[tuple[Severity, str]]:
    counts = []
    for severity in reversed(Severity):
        found = [finding for finding in findings if finding.severity is severity]
        # A note on 50 layers is one thing worth knowing; an error on 50 layers is 50 layers to mend.
        number_found = len({f.rule for f in found}) if severity is Severity.NOTE else len(found)
        if number_found:
            counts.append((severity, _plural(number_found, severity.label)))
    return counts


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _last_line(console: Console, report: Report, view: View) -> None:
    code = report.exit_code(view.fail_on)
    meaning = {
        0: f"nothing at or above {view.fail_on.label}",
        1: f"findings at or above {view.fail_on.label}",
        2: "something could not be read, or failed",
        3: "nothing was checked",
    }[code]
    total = ", ".join(counted for _, counted in _counts(report.findings)) or "no findings"
    line = Text(f"{total} · exit {code}: {meaning}", style="bold" if code else "")
    console.print(line)


def number(value: float | int | str) -> str:
    """A number in the fewest digits that tell it: 4 significant ones, thousands separated."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, int) or (value == int(value) if abs(value) < 1e15 else False):
        return f"{int(value):,}"
    return f"{value:.4g}"


def _span(ends: tuple[float, float] | tuple[int, int] | None) -> str:
    if ends is None:
        return ""
    low, high = ends
    return number(low) if low == high else f"{number(low)}–{number(high)}"


def _bytes(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    exponent = min((len(str(size)) - 1) // 3, 4)
    scaled = size / 1000**exponent
    return f"{scaled:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[exponent]}"


RENDERER = Renderer(name="terminal", suffix=".txt", render=render)
