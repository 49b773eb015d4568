"""Two artifacts in the terminal: what is held against what, the conclusion, then what differs, furthest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnaudit.comparison import Comparison, Fold, FoldCause, Move
from bnaudit.name_patterns import compress
from bnaudit.printable import printable
from bnaudit.results import Audit
from bnaudit.terminal.amounts import bytes_text, number, plural
from bnaudit.terminal.comparison_conclusion import by_cause, conclusion, is_equal, standings
from bnaudit.terminal.comparison_run import round_trip_lines, run_lines

MOST = 8
"""Layers in a list before the rest is counted; `--all-layers` shows all."""


def comparison_lines(console: Console, audit: Audit, in_full: bool) -> None:
    """Print all of the comparison that stands above the findings."""
    comparison = audit.comparison
    if comparison is None:
        return
    heading(console, audit)
    for line in conclusion(comparison):
        _indented(console, Text(line, style="bold green" if is_equal(comparison) else "bold"))
    _details(console, comparison)
    console.print()
    _moved(console, comparison, in_full)
    _folds(console, comparison, in_full)
    _reshaped(console, comparison, in_full)
    run_lines(console, comparison, failed=audit.run_failed)
    round_trip_lines(console, comparison)


def title(audit: Audit) -> str:
    """`trained.pt against deployed.onnx`, with the parts where they were chosen from several."""
    comparison = audit.comparison
    if comparison is None:
        return printable(audit.artifact.path)
    baseline = _named(comparison.baseline.artifact.path, comparison.baseline_part.name)
    if comparison.round_trip is not None:
        return f"{baseline} saved and loaded again"
    return f"{baseline} against {_named(audit.artifact.path, comparison.subject_part.name)}"


def _named(path: str, part: str) -> str:
    return printable(f"{path}#{part}" if part else path)


def heading(console: Console, audit: Audit) -> None:
    """Print the two and which is which."""
    comparison = audit.comparison
    if comparison is None:
        return
    console.print(Text(title(audit), style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for role, artifact in sides(audit):
        table.add_row(Text(role, style="dim"), Text(artifact, style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))
    for remark in comparison.remarks:
        _indented(console, Text(printable(remark)))
    console.print()


def sides(audit: Audit) -> Sequence[tuple[str, str]]:
    """(role, format and size) of the baseline and of the subject."""
    comparison = audit.comparison
    if comparison is None:
        return []
    both = [("baseline", comparison.baseline.artifact), ("subject", audit.artifact)]
    return [
        (role, " · ".join(filter(None, (printable(a.format), printable(a.producer or ""), bytes_text(a.size)))))
        for role, a in both[: 1 if comparison.round_trip is not None else 2]
    ]


def _details(console: Console, comparison: Comparison) -> None:
    """How the layers were paired, and what both do not say, where that matters."""
    for rename in comparison.matching.renames:
        new, old = printable(rename.new) or "nothing", printable(rename.old)
        what = f"{old} in the subject's names" if old else "the beginning of the subject's names"
        _indented(console, Text(f"{plural(rename.layers, 'layer')} paired with {new} for {what}"))
    paired = [pair.by for pair in comparison.matching.pairs]
    for by in dict.fromkeys(paired):
        if by.value not in ("name", "rename"):
            _indented(console, Text(f"{plural(paired.count(by), 'layer')} paired by {by.value}"))
    untold = [each for each in standings(comparison) if each.untold]
    if comparison.moves and is_equal(comparison) and untold:
        words = " and ".join(each.what for each in untold)
        _indented(console, Text(f"not compared, since one of the two does not say: {words}", style="dim"))


def _moved(console: Console, comparison: Comparison, in_full: bool) -> None:
    if not comparison.moves or is_equal(comparison):
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    table.add_column(plural(len(comparison.moves), "norm layer"))
    for column in ("equal", "different", "not said"):
        table.add_column(column, justify="right")
    for each in standings(comparison):
        style = "yellow" if each.differing else ""
        table.add_row(each.what, str(each.equal), Text(str(each.differing), style=style), str(each.untold))
    console.print(Padding(table, (0, 0, 0, 2)))
    if counters := counters_text(comparison.moves):
        _indented(console, Text(counters, style="dim"))
    console.print()
    _sizes(console, [move for move in comparison.moves if _size(move) > 0], in_full)


def counters_text(moves: Sequence[Move]) -> str:
    """`batches: 86,296 in the baseline, 254,016 in the subject`; "" where they are equal or not in both."""
    both = {move.counters for move in moves if move.counters is not None}
    if not both or all(mine == theirs for theirs, mine in both):
        return ""
    spans = []
    for position, side in enumerate(("baseline", "subject")):
        values = [pair[position] for pair in both]
        low, high = number(min(values)), number(max(values))
        spans.append(f"{low if low == high else f'{low} to {high}'} in the {side}")
    return f"batches: {', '.join(spans)}"


def _sizes(console: Console, moved: list[Move], in_full: bool) -> None:
    """A row for each layer that moved, the furthest first, and the median below."""
    if not moved:
        return
    ordered = sorted(moved, key=_size, reverse=True)
    shown = ordered if in_full else ordered[:MOST]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    table.add_column("moved furthest" if len(moved) > 1 else "moved", overflow="fold")
    for column in ("mean", "variance", "weights", "gain", "shift"):
        table.add_column(column, justify="right", no_wrap=True)
    for move in shown:
        table.add_row(printable(move.layer) or "(root)", *amounts(move))
    if len(ordered) > len(shown):
        table.add_row(Text(f"median of {len(moved)}", style="dim"), *(Text(a, style="dim") for a in medians(moved)))
    console.print(Padding(table, (0, 0, 0, 2)))
    if len(ordered) > len(shown):
        _indented(console, Text(f"and {len(ordered) - len(shown)} more (--all-layers shows them)", style="dim"))
    console.print()


def amounts(move: Move) -> tuple[str, ...]:
    """Mean shift, variance ratio, changes of weights, gain and shift, as columns."""
    return _amounts(move.mean_shift, move.var_ratio, move.affine_change, move.gain_change, move.shift_change)


def medians(moves: Sequence[Move]) -> tuple[str, ...]:
    """The same of the middle layer in each column."""
    columns = ("mean_shift", "var_ratio", "affine_change", "gain_change", "shift_change")
    return _amounts(*(_median(getattr(move, column) for move in moves) for column in columns))


def _amounts(
    mean: float | None, ratio: float | None, affine: float | None, gain: float | None, shift: float | None
) -> tuple[str, ...]:
    return (
        "" if mean is None else f"{_short(mean)} σ",
        "" if ratio is None else f"×{ratio:.3g}",
        _percent(affine),
        _percent(gain),
        _percent(shift),
    )


def _percent(value: float | None) -> str:
    return "" if value is None else f"{_short(value * 100)} %"


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"


def _median(values: Iterable[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None


def _size(move: Move) -> float:
    """By what it does to the output, else by what is known."""
    known = [move.gain_change, move.shift_change]
    if all(value is None for value in known):
        known = [move.affine_change, move.mean_shift]
    return max((value for value in known if value is not None), default=0.0)


def _folds(console: Console, comparison: Comparison, in_full: bool) -> None:
    folds = comparison.folds
    if folds is None:
        return
    names = [fold.layer for fold in folds.folds]
    for cause, found in by_cause(folds.folds):
        lines = [_fold(fold) for fold in found] if cause is not FoldCause.EQUAL or in_full else [_all(found, names)]
        shown = lines if in_full else lines[:MOST]
        for line in shown:
            _indented(console, line)
        if len(lines) > len(shown):
            _indented(console, Text(f"and {len(lines) - len(shown)} more of {cause.value} (--all-layers shows them)"))
    if folds.unfound:
        labels = [printable(label) for label, _ in compress(folds.unfound, folds.unfound)][:MOST]
        _indented(console, Text(f"no convolution that fits was found for {', '.join(labels)}", style="yellow"))
    for remark in folds.remarks:
        _indented(console, Text(printable(remark), style="dim"))
    if folds.folds or folds.unfound or folds.remarks:
        console.print()


def _all(found: Sequence[Fold], names: Sequence[str]) -> Text:
    labels = [printable(label) or "(root)" for label, _ in compress([fold.layer for fold in found], names)]
    listed = ", ".join(labels[:6]) + (", …" if len(labels) > 6 else "")
    worst = max((fold.gain_residual for fold in found if fold.gain_residual is not None), default=None)
    said = f" (residual at most {worst:.2g})" if worst is not None else ""
    return Text.assemble("equal  ", (listed, "bold"), f" ×{len(found)}" if len(found) > 1 else "", (said, "dim"))


def _fold(fold: Fold) -> Text:
    into = f" in {printable(fold.into)}" if fold.into else ""
    style = "" if fold.cause is FoldCause.EQUAL else "yellow"
    detail = f": {printable(fold.detail)}" if fold.detail else ""
    return Text.assemble((f"{fold.cause.value}  ", style), (printable(fold.layer) or "(root)", "bold"), into, detail)


def _reshaped(console: Console, comparison: Comparison, in_full: bool) -> None:
    shown = comparison.reshaped if in_full else comparison.reshaped[:MOST]
    if not shown:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    table.add_column("changed shape", overflow="fold")
    table.add_column("baseline")
    table.add_column("subject")
    for each in shown:
        table.add_row(printable(each.layer), *("×".join(map(str, shape)) for shape in each.shapes))
    console.print(Padding(table, (0, 0, 0, 2)))
    if len(comparison.reshaped) > len(shown):
        more = len(comparison.reshaped) - len(shown)
        _indented(console, Text(f"and {more} more (--all-layers shows them)", style="dim"))
    console.print()


def _indented(console: Console, line: Text) -> None:
    console.print(Padding(line, (0, 0, 0, 2)))
