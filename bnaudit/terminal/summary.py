"""Many artifacts in a line each, and what was not audited."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bnaudit.printable import printable
from bnaudit.results import Audit, Outcome, Question, Report
from bnaudit.terminal.amounts import counts, plural
from bnaudit.terminal.styles import OUTCOME_STYLES, SEVERITY_STYLES

_SIGNS = {Outcome.PASSED: "+", Outcome.FAILED: "-", Outcome.INCONCLUSIVE: "?", Outcome.NOT_CHECKED: "."}


def summary(console: Console, report: Report) -> None:
    """Print a line for each artifact, then what was not audited."""
    folder = shared_folder(report)
    if report.audits:
        if folder:
            console.print(Text(f"in {printable(folder)}", style="bold"))
        console.print(_table(report.audits, folder))
        console.print(Text(f"verdicts: {', '.join(question.value for question in Question)}", style="dim"))
        console.print(Text("+ passed, - failed, ? inconclusive, . not checked", style="dim"))
        console.print()
    for unaudited in report.unaudited:
        style, word = ("bold red", "error") if unaudited.error else ("yellow", "not audited")
        line = Text(f"{word} ", style=style)
        if unaudited.path not in unaudited.why:
            line.append(f"{printable(below(unaudited.path, folder))}: ", style="bold")
        line.append(printable(unaudited.why))
        console.print(line)


def _table(audits: Iterable[Audit], folder: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    table.add_column("artifact", overflow="fold")
    table.add_column("found")
    table.add_column("verdicts", no_wrap=True)
    for audit in audits:
        found = [Text(amount, SEVERITY_STYLES[severity]) for severity, amount in counts(audit.open_findings)]
        signs = [Text(_SIGNS[v.outcome], OUTCOME_STYLES[v.outcome]) for v in audit.verdicts]
        table.add_row(printable(below(audit.artifact.path, folder)), Text(", ").join(found), Text(" ").join(signs))
    return table


def other_files(console: Console, report: Report) -> None:
    """Print how many files in folders are no models."""
    if report.other_files:
        console.print(Text(f"{plural(report.other_files, 'other file')}: not a model", style="dim"))


def shared_folder(report: Report) -> str:
    """The folder that all paths share, "" when it is the working directory or there is none."""
    paths = [*(audit.artifact.path for audit in report.audits), *(entry.path for entry in report.unaudited)]
    parents = {str(Path(path).parent) for path in paths}
    if len(paths) < 2 or len({Path(parent).anchor for parent in parents}) > 1:
        return ""
    shared = os.path.commonpath(parents) if "." not in parents else ""
    return "" if shared == "." else shared


def below(path: str, folder: str) -> str:
    """The path without the folder in front, where it is in it."""
    return str(Path(path).relative_to(folder)) if folder and Path(path).is_relative_to(folder) else path
