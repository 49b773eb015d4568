"""What a run over many artifacts came to, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bnaudit.printable import printable
from bnaudit.results import Severity
from bnaudit.tallies import Counted, Found, Tally
from bnaudit.terminal.amounts import plural, seconds_text
from bnaudit.terminal.exit_meaning import broken_text, passed_text, threshold
from bnaudit.terminal.styles import SEVERITY_STYLES
from bnaudit.terminal.unmatched_lines import unmatched_lines

_RULES = 8
"""Rules that are shown, worst first."""
_WORDS = {2: ("error", "bold red"), 1: ("fails", "bold red")}


def tally(console: Console, result: Tally, where: str) -> None:
    """Print the counts, the rules, what did not pass, worst first, and the exit code; `where` names the results."""
    console.print(Text(_work(result)))
    _rules(console, result)
    _not_passing(console, result, where)
    unmatched_lines(console, result.unmatched)
    code = result.exit_code()
    accepted = f", {result.accepted:,} accepted" if result.accepted else ""
    line = Text(f"{_amounts(result.findings) or 'no findings'}{accepted} · exit {code}: {_meaning(result)}")
    line.stylize("bold" if code else "")
    console.print(line)


def _work(result: Tally) -> str:
    of = "" if result.audited == result.total else f" of {result.total:,}"
    line = f"{result.audited:,}{of} {'artifact' if result.total == 1 else 'artifacts'} audited"
    if result.kept:
        line += f", {result.kept:,} of them before"
    parts = [line, seconds_text(result.seconds)]
    if result.dropped:
        parts.append(f"{plural(result.dropped, 'earlier result')} made again or left out")
    if result.other_files:
        parts.append(f"{plural(result.other_files, 'other file')}: not a model")
    return " · ".join(parts)


def _rules(console: Console, result: Tally) -> None:
    ordered = sorted(result.findings.items(), key=lambda pair: (-pair[0].severity, -pair[1], pair[0].rule))
    if not ordered:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for found, number in ordered[:_RULES]:
        label = Text(found.severity.label, style=SEVERITY_STYLES[found.severity])
        amount = f"{number:,} in {plural(result.artifacts_with[found], 'artifact')}"
        table.add_row(label, f"{printable(found.rule)} {printable(found.name)}", amount)
    console.print()
    console.print(table)
    if len(ordered) > _RULES:
        console.print(Text(f"and {plural(len(ordered) - _RULES, 'more rule')}", style="dim"))


def _not_passing(console: Console, result: Tally, where: str) -> None:
    if not result.worst:
        return
    console.print()
    for entry in result.worst:
        word, style = _WORDS.get(entry.exit_code, ("open", "yellow"))
        line = Text(f"{word} ", style=style)
        if entry.path not in entry.reason:
            line.append(f"{printable(entry.path)}: ", style="bold")
        console.print(line.append(_why(entry)))
    more = result.not_passing - len(result.worst)
    if more:
        verb = "does" if more == 1 else "do"
        console.print(Text(f"and {more:,} more that {verb} not pass: see {printable(where)}", style="dim"))
    console.print()


def _why(entry: Counted) -> str:
    rules = sorted({found.rule for found in entry.found if found.severity >= (entry.fail_on or Severity.NOTE)})
    named = f" ({', '.join(rules[:4])}{', …' if len(rules) > 4 else ''})" if rules else ""
    found = f"{_amounts(entry.found)}{named}" if rules else ""
    return printable("; ".join(part for part in (entry.reason, found) if part))


def _amounts(found: Mapping[Found, int]) -> str:
    """`3 errors, 1 warning`; notes count by rule, as in other reports."""
    parts = []
    for level in reversed(Severity):
        numbers = [number for each, number in found.items() if each.severity is level]
        total = len(numbers) if level is Severity.NOTE else sum(numbers)
        if total:
            parts.append(f"{total:,} {level.label}{'' if total == 1 else 's'}")
    return ", ".join(parts)


def _meaning(result: Tally) -> str:
    code = result.exit_code()
    if code == 130:
        return "interrupted, --resume goes on"
    if code == 2:
        return broken_text(bool(result.codes[2]))
    if code == 1:
        failing = any(found.severity >= level for found in result.findings for level in result.fail_on)
        return f"findings at or above {threshold(result.fail_on)}" if failing else "a required verdict failed"
    if code == 3:
        return _undecided(result)
    return passed_text(result.fail_on, result.exit_zero and result.not_passing > 0)


def _undecided(result: Tally) -> str:
    if not result.audited or not result.looked:
        return "nothing was checked" if not result.audited else "in some nothing was checked"
    if result.codes[3] > result.unread:
        return "required verdicts are not decided"
    return f"{plural(result.unread, 'artifact')} not audited"
