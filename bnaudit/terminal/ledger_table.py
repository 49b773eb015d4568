"""The ledger: one line per run of like layers, answering which observations, which mode, which saved state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnaudit.printable import printable
from bnaudit.results import Audit, LedgerRow
from bnaudit.terminal.amounts import plural, share, span
from bnaudit.terminal.finding_places import part_names


def ledger(console: Console, audit: Audit) -> None:
    """Print the ledger, parts that are alike once; without norm layers, why there are none."""
    if not audit.ledger:
        console.print(Padding(Text(printable(why_no_layers(audit))), (0, 0, 1, 2)))
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
            console.print(Text(f"  {title} {part_names(parts, list(by_part))}", style="bold"))
        console.print(Padding(_ledger_table(by_part[parts[0]], console.width - 2), (0, 0, 0, 2)))
    _ledger_notes(console, audit.ledger)


def why_no_layers(audit: Audit) -> str:
    """Why the ledger of this artifact is empty."""
    description = audit.description
    if any(description.layers):
        return "No norm layer has a name that was asked for."
    if folded := [part.folded for part in description.parts if part.folded]:
        return f"No norm layers: {folded[0]}"
    if hidden := sum(len(part.hidden) for part in description.parts):
        return f"No norm layers where eval() and state_dict() reach; {plural(hidden, 'module')} out of reach."
    unread = any(gap.hides_norms for gap in audit.gaps)
    return "No norm layers in what could be read." if unread else "No norm layers."


def _without_part(row: LedgerRow) -> tuple[object, ...]:
    shown = (row.label, len(row.layers), row.kind, row.channels, row.counter, row.residual, row.mode, row.state)
    return (*shown, row.eps, row.momentum)


def _assumes_momentum(rows: Iterable[LedgerRow]) -> bool:
    return any(row.residual is not None and not row.momentum for row in rows)


def _columns(rows: Sequence[LedgerRow]) -> list[tuple[str, list[str], bool]]:
    """Title, cells, and whether they are numbers; a column without a word is left out: 80 characters are few."""
    same_kind = len({row.kind for row in rows}) == 1
    same_mode = len({row.mode for row in rows}) == 1
    columns: list[tuple[str, list[str], bool]] = [
        ("kind", [] if same_kind else [row.kind for row in rows], False),
        ("channels", [span(row.channels) for row in rows], True),
        ("batches", [span(row.counter) for row in rows], True),
        ("initial*" if _assumes_momentum(rows) else "initial", [share(row.residual) for row in rows], True),
        ("mode", [] if same_mode else [row.mode for row in rows], False),
        ("saved", [row.state for row in rows], False),
    ]
    return [column for column in columns if any(column[1])]


def _ledger_table(rows: Sequence[LedgerRow], width: int) -> Table:
    columns = _columns(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    taken = sum(max(len(title), *map(len, cells)) + 2 for title, cells, _ in columns)
    kinds = {row.kind for row in rows}
    title = f"{kinds.pop()} norm" if len(kinds) == 1 else "layer"
    table.add_column(title, overflow="fold", max_width=max(width - taken, 20))
    for title, _, is_number in columns:
        table.add_column(title, justify="right" if is_number else "left", no_wrap=is_number)
    for position, row in enumerate(rows):
        label = Text(printable(row.label) or "(root)")
        label.append(f" ×{len(row.layers)}" if len(row.layers) > 1 else "", style="dim")
        table.add_row(
            label,
            *(cells[position] for _, cells, _ in columns),
            style="" if row.state in ("complete", "no counter", "affine only") else "yellow",
        )
    return table


def _ledger_notes(console: Console, rows: Sequence[LedgerRow]) -> None:
    modes = {row.mode for row in rows}
    notes = [f"mode: {modes.pop()}"] if len(modes) == 1 else []
    if _assumes_momentum(rows):
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
