"""`bnaudit rules`: the table of rules."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """
Examples:

  bnaudit rules

  bnaudit rules --markdown
"""


def command(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table, as in the README.")] = False,
) -> int:
    """List the rules: id, name, severity, what each finds."""
    from bnaudit.output import write
    from bnaudit.rules import rules

    rows = [(rule.id, rule.name, rule.severity.label, rule.summary) for rule in rules()]
    write(_markdown(rows) if markdown else _table(rows))
    return 0


def _markdown(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| id | name | severity | finds |", "|---|---|---|---|"]
    lines += [
        f"| {id} | {name} | {severity} | {finds.replace('|', chr(92) + '|')} |" for id, name, severity, finds in rows
    ]
    return "\n".join(lines) + "\n"


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    import io

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from bnaudit.output import view
    from bnaudit.reports.terminal import SEVERITY_STYLES
    from bnaudit.results import Severity

    seen = view()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("id", "name", "severity", "finds"):
        table.add_column(title, no_wrap=title != "finds")
    for id, name, severity, finds in rows:
        table.add_row(id, name, f"[{SEVERITY_STYLES[Severity[severity.upper()]]}]{severity}[/]", finds)
    buffer = io.StringIO()
    Console(
        file=buffer, width=seen.width, force_terminal=seen.color, color_system="standard" if seen.color else None
    ).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
