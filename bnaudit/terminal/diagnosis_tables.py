"""The numbers of a triage: every residual, nearest first."""

from __future__ import annotations

from math import isfinite

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnaudit.diagnosis import Conclusion, Diagnosis, Tried
from bnaudit.printable import printable

MOST_ROWS = 10


def residuals(console: Console, diagnosis: Diagnosis, in_full: bool) -> None:
    """Print the hypotheses with residual, floor and agreement; the nearest ten, or all."""
    if not diagnosis.tried:
        return
    shown = diagnosis.tried if in_full else diagnosis.tried[:MOST_ROWS]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("residual", justify="right", no_wrap=True)
    table.add_column("÷ floor", justify="right", no_wrap=True)
    with_decisions = any(tried.agreement is not None for tried in shown)
    if with_decisions:
        table.add_column("same class", justify="right", no_wrap=True)
    table.add_column("hypothesis", overflow="fold")
    for tried in shown:
        row = [number(tried.residual), _in_floors(tried)]
        if with_decisions:
            row.append("" if tried.agreement is None else f"{100 * tried.agreement:.1f} %")
        style = "bold" if tried.at_floor and _is_answer(diagnosis, tried) else ""
        table.add_row(*row, Text(_claim(tried), style=style))
    console.print(Text("Residuals, nearest first", style="bold"))
    console.print(Padding(table, (0, 0, 0, 2)))
    if len(shown) < len(diagnosis.tried):
        console.print(Text(f"  … and {len(diagnosis.tried) - len(shown)} more, all of them with --all", style="dim"))
    console.print()


def _claim(tried: Tried) -> str:
    return printable(f"{tried.hypothesis.claim} ({tried.why})" if tried.why else tried.hypothesis.claim)


def _is_answer(diagnosis: Diagnosis, tried: Tried) -> bool:
    keys = {each.hypothesis.key for each in diagnosis.explanations}
    return diagnosis.conclusion is not Conclusion.NEAREST and tried.hypothesis.key in keys


def _in_floors(tried: Tried) -> str:
    if not isfinite(tried.residual):
        return ""
    if not tried.floor:
        return "0" if not tried.residual else "∞"
    ratio = tried.residual / tried.floor
    return f"{ratio:.1f}" if ratio < 1000 else f"{ratio:.1e}"


def number(value: float) -> str:
    """Three digits, and a dash for what has no value."""
    return f"{value:.3g}" if isfinite(value) else "–"
