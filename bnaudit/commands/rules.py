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
    write(_markdown(rows) if markdown else _listing(rows))
    return 0


def _markdown(rows: list[tuple[str, str, str, str]]) -> str:
    lines = ["| id | name | severity | finds |", "|---|---|---|---|"]
    lines += [
        f"| {id} | {name} | {severity} | {finds.replace('|', chr(92) + '|')} |" for id, name, severity, finds in rows
    ]
    return "\n".join(lines) + "\n"


def _listing(rows: list[tuple[str, str, str, str]]) -> str:
    """Two lines a rule: a column of summaries beside three others would be twenty characters wide."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from bnaudit.output import view
    from bnaudit.results import Severity
    from bnaudit.terminal.console_text import console_text
    from bnaudit.terminal.styles import SEVERITY_STYLES

    def show(console: Console) -> None:
        for id, name, severity, finds in rows:
            head = Text(f"{id} ", style="bold")
            head.append(f"{name}  ", style="bold").append(severity, style=SEVERITY_STYLES[Severity[severity.upper()]])
            console.print(head)
            console.print(Padding(Text(finds), (0, 0, 0, 6)))

    seen = view()
    return console_text(show, seen.width, seen.color)
