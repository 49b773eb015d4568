"""Two artifacts in the terminal: what is held against what, the conclusion, then what differs, furthest first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnaudit.comparison import Comparison, Fold, FoldCause
from bnaudit.name_patterns import compress
from bnaudit.printable import printable
from bnaudit.results import Audit
from bnaudit.terminal.comparison_conclusion import by_cause, conclusion, is_equal
from bnaudit.terminal.comparison_run import round_trip_texts, run_texts
from bnaudit.terminal.comparison_tables import (
    Listing,
    counted,
    counters,
    median_row,
    pairing,
    reshaped,
    sides,
    sizes,
    title,
    untold,
)
from bnaudit.terminal.ledger_table import why_no_layers

_MOST = 8
"""Layers in a list before the rest is counted; `--all-layers` shows all."""


def comparison_lines(console: Console, audit: Audit, comparison: Comparison, in_full: bool) -> None:
    """Print all of the comparison that stands above the findings."""
    _heading(console, audit, comparison)
    for line in conclusion(comparison):
        _indented(console, Text(line, style="bold green" if is_equal(comparison) else "bold"))
    for said in filter(None, (*pairing(comparison), untold(comparison))):
        _indented(console, Text(said, style="dim"))
    if not audit.ledger and any(audit.description.layers):
        _indented(console, Text(why_no_layers(audit), style="yellow"))
    console.print()
    if (listing := counted(comparison)) is not None:
        _table(console, listing, listing.rows)
        if said := counters(comparison):
            _indented(console, Text(said, style="dim"))
        console.print()
    _cut(console, sizes(comparison), in_full, median_row(comparison))
    _folds(console, comparison, in_full)
    _cut(console, reshaped(comparison), in_full)
    trip = comparison.round_trip
    for text in round_trip_texts(trip) if trip is not None else run_texts(comparison, failed=audit.run_failed):
        _indented(console, text)
    console.print()


def _heading(console: Console, audit: Audit, comparison: Comparison) -> None:
    """Print the two and which is which."""
    console.print(Text(title(audit), style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for role, about in sides(audit):
        table.add_row(Text(role, style="dim"), Text(about, style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))
    for remark in comparison.remarks:
        _indented(console, Text(printable(remark), style="dim"))
    console.print()


def _cut(console: Console, listing: Listing | None, in_full: bool, last: Sequence[str] = ()) -> None:
    """Print a table of layers, the first ones or all; `last` is a row below those that are cut."""
    if listing is None:
        return
    rows = listing.rows if in_full else listing.rows[:_MOST]
    more = len(listing.rows) - len(rows)
    _table(console, listing, rows, last if more else ())
    if more:
        _indented(console, Text(f"and {more} more (--all-layers shows them)", style="dim"))
    console.print()


def _table(console: Console, listing: Listing, rows: Sequence[tuple[str, ...]], last: Sequence[str] = ()) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    table.add_column(listing.title, overflow="fold")
    for column in listing.columns:
        table.add_column(column, justify="right" if listing.numeric else "left", no_wrap=listing.numeric)
    for row in rows:
        table.add_row(*row)
    if last:
        table.add_row(*(Text(cell, style="dim") for cell in last))
    console.print(Padding(table, (0, 0, 0, 2)))


def _folds(console: Console, comparison: Comparison, in_full: bool) -> None:
    folds = comparison.folds
    if folds is None:
        return
    _causes(console, folds.folds, in_full)
    if folds.unfound:
        listed = _listed(folds.unfound, folds.unfound, _MOST)
        _indented(console, Text(f"no convolution that fits was found for {listed}", style="yellow"))
    for remark in folds.remarks:
        _indented(console, Text(printable(remark), style="dim"))
    if folds.folds or folds.unfound or folds.remarks:
        console.print()


def _causes(console: Console, folds: tuple[Fold, ...], in_full: bool) -> None:
    """Print a line for each fold, those that are equal on one; of each cause the first ones or all."""
    names = [fold.layer for fold in folds]
    for cause, found in by_cause(folds):
        lines = [_fold(fold) for fold in found] if cause is not FoldCause.EQUAL or in_full else [_all(found, names)]
        shown = lines if in_full else lines[:_MOST]
        for line in shown:
            _indented(console, line)
        if more := len(lines) - len(shown):
            _indented(console, Text(f"and {more} more of {cause.value} (--all-layers shows them)", style="dim"))


def _all(found: Sequence[Fold], names: Sequence[str]) -> Text:
    listed = _listed([fold.layer for fold in found], names, 6)
    worst = max((fold.gain_residual for fold in found if fold.gain_residual is not None), default=None)
    said = f"  residual at most {worst:.2g}" if worst is not None else ""
    return Text.assemble("equal  ", (listed, "bold"), f" ×{len(found)}" if len(found) > 1 else "", (said, "dim"))


def _listed(names: Sequence[str], among: Sequence[str], most: int) -> str:
    """The names as patterns, the first ones."""
    labels = [printable(label) or "(root)" for label, _ in compress(names, among)]
    return ", ".join(labels[:most]) + (", …" if len(labels) > most else "")


def _fold(fold: Fold) -> Text:
    into = f" in {printable(fold.into)}" if fold.into else ""
    style = "" if fold.cause is FoldCause.EQUAL else "yellow"
    detail = f": {printable(fold.detail)}" if fold.detail else ""
    return Text.assemble((f"{fold.cause.value}  ", style), (printable(fold.layer) or "(root)", "bold"), into, detail)


def _indented(console: Console, line: Text) -> None:
    console.print(Padding(line, (0, 0, 0, 2)))
