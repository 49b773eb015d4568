"""The sections of a Diagnosis on a terminal: the answer, what to do, the numbers, what was not tried."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bnaudit.diagnosis import Conclusion, Diagnosis, Distinguishing, FamilyMatch, LogEvidence
from bnaudit.printable import printable
from bnaudit.terminal.console_text import console_text
from bnaudit.terminal.diagnosis_conclusion import advice, conclusion, log_advice
from bnaudit.terminal.diagnosis_tables import number, residuals

_STYLES = {
    Conclusion.EXPLAINED: "bold red",
    Conclusion.SEVERAL: "bold red",
    Conclusion.UP_TO_PRECISION: "bold red",
    Conclusion.PROVED_BY_LOG: "bold red",
    Conclusion.CONSISTENT: "bold yellow",
    Conclusion.NOTHING_TO_EXPLAIN: "bold green",
}
_MOST_LINES = 8


def diagnosis_text(diagnosis: Diagnosis, width: int, color: bool, in_full: bool) -> str:
    """The whole answer as text for a terminal of this width."""
    return console_text(lambda console: _whole(console, diagnosis, in_full), width, color)


def _whole(console: Console, diagnosis: Diagnosis, in_full: bool) -> None:
    _opening(console, diagnosis)
    residuals(console, diagnosis, in_full)
    if diagnosis.distinguishing is not None:
        _distinguishing(console, diagnosis.distinguishing)
    _families(console, diagnosis.families)
    if diagnosis.log is not None:
        _log(console, diagnosis.log, alone=diagnosis.artifact is None)
    _list(console, "These would give the same scores, beside it or in its place", diagnosis.unseen, in_full)
    _coinciding(console, diagnosis.coinciding, in_full)
    _untried(console, diagnosis.untried, in_full)
    _list(console, "Remarks", diagnosis.remarks, in_full)
    console.print(Text(_last_line(diagnosis), style="bold" if diagnosis.exit_code else ""))


def _opening(console: Console, diagnosis: Diagnosis) -> None:
    if diagnosis.artifact is not None:
        console.print(Text(printable(diagnosis.artifact.path), style="bold"))
    console.print(Text(printable(f"observed: {diagnosis.observed}"), style="dim"))
    if diagnosis.inputs:
        console.print(Text(printable(f"inputs: {diagnosis.inputs}"), style="dim"))
    console.print()
    if diagnosis.interrupted:
        console.print(Text("Interrupted: what follows rests on what was replayed until then.", style="yellow"))
    console.print(Text(printable(conclusion(diagnosis)), style=_STYLES.get(diagnosis.conclusion, "bold")))
    if diagnosis.reason and diagnosis.artifact is not None:
        console.print(Text(printable(_sentence(diagnosis.reason))))
    for line in advice(diagnosis):
        console.print(Text(printable(f"→ {line}")))
    console.print()


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _distinguishing(console: Console, found: Distinguishing) -> None:
    lines = []
    if found.rows:
        rows = ", ".join(map(str, found.rows[:_MOST_LINES]))
        lines.append(f"score these given inputs again, more exactly: {rows}")
    for row, other, weight in found.mixtures[:_MOST_LINES]:
        lines.append(f"{weight:.2g} × input {row} + {1 - weight:.2g} × input {other}")
    if found.separation:
        lines.append(f"on the best of them the explanations are at least {number(found.separation)} floors apart")
    _list(console, "Inputs that would tell them apart", lines or ["none was found"], True)


def _families(console: Console, families: tuple[FamilyMatch, ...]) -> None:
    lines = []
    for match in families:
        word = "consistent" if match.consistent else "not consistent"
        inside = f"{100 * match.inside:.0f} % of the scores lie within draws" if isfinite(match.inside) else ""
        lines.append("; ".join(filter(None, [f"{match.name}: {word}", inside, match.signature])))
        if match.consistent and match.needs:
            lines.append(f"  to replay it, log {match.needs}")
    _list(console, "Causes that cannot be replayed", lines, True)


def _log(console: Console, log: LogEvidence, *, alone: bool) -> None:
    lines = list(log.reasons)
    if log.examples and log.differing:
        lines.append(f"Inputs that differ most: {', '.join(log.examples)}.")
    if not alone and not log.differing and not log.repeated:
        return
    _list(console, f"The log: {log.observations} observations of {log.inputs} inputs", lines, True)
    if log.scatter_by_size and log.differing:
        console.print(Text("  scatter of one input's scores, by batch size", style="dim"))
        for size, count, scatter in log.scatter_by_size[:_MOST_LINES]:
            console.print(Text(f"  {size:>8}  {number(scatter):>10}  ({count} observations)"))
        console.print()
    if not alone:
        _list(console, "After the log", log_advice(log, alone=False), True)


def _coinciding(console: Console, sets: tuple[tuple[str, ...], ...], in_full: bool) -> None:
    lines = [" = ".join(claims) for claims in sets]
    _list(console, "Hypotheses that such scores cannot tell apart on these inputs", lines, in_full)


def _untried(console: Console, untried: tuple[tuple[str, str], ...], in_full: bool) -> None:
    needs: dict[str, list[str]] = {}
    for claim, need in untried:
        needs.setdefault(need, []).append(claim)
    lines = [f"{'; '.join(claims)}: needs {need}" for need, claims in needs.items()]
    _list(console, "Not tried", lines, in_full)


def _list(console: Console, title: str, lines: Iterable[str], in_full: bool) -> None:
    """A title with one entry a line, each wrapped under itself; nothing where there is none."""
    every = list(lines)
    if not every:
        return
    console.print(Text(title, style="bold"))
    shown = every if in_full else every[:_MOST_LINES]
    for line in shown:
        console.print(Padding(Text(printable(line)), (0, 0, 0, 2)))
    if len(shown) < len(every):
        console.print(Text(f"  … and {len(every) - len(shown)} more, all of them with --all", style="dim"))
    console.print()


def _last_line(diagnosis: Diagnosis) -> str:
    meanings = {0: "nothing to explain", 1: "a difference with an answer", 3: "no answer", 130: "interrupted"}
    end = f"exit code {diagnosis.exit_code}: {meanings[diagnosis.exit_code]}"
    if not diagnosis.forwards:
        return f"bnaudit {diagnosis.version} · {end}"
    run = f"{diagnosis.forwards} forwards, {diagnosis.seconds:.1f} s, {diagnosis.runner}"
    return f"bnaudit {diagnosis.version} · {printable(run)} · {end}"
