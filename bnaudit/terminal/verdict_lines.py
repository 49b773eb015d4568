"""What an audit opens with: the artifact, errors that no verdict speaks of, the five verdicts."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bnaudit.printable import printable
from bnaudit.results import Audit, Finding, Outcome, Severity
from bnaudit.terminal.amounts import bytes_text
from bnaudit.terminal.styles import OUTCOME_STYLES


def heading(console: Console, audit: Audit) -> None:
    """Print what the artifact is and how much of it was read."""
    console.print(Text(printable(audit.artifact.path), style="bold"))
    console.print(Text(about(audit), style="dim"))
    for remark in audit.description.remarks:
        console.print(Text(printable(remark)))
    console.print()


def about(audit: Audit) -> str:
    """`PyTorch zip checkpoint · 67.8 kB, 39 kB read`."""
    artifact = audit.artifact
    read = "all" if artifact.bytes_read >= artifact.size else bytes_text(artifact.bytes_read)
    said = [artifact.format, printable(artifact.producer or ""), f"{bytes_text(artifact.size)}, {read} read"]
    return " · ".join(each for each in said if each)


def unspoken_errors(audit: Audit) -> tuple[Finding, ...]:
    """Open errors that no verdict speaks of, one for each rule."""
    unspoken = [f for f in audit.open_findings if f.severity is Severity.ERROR and f.question is None]
    return tuple({finding.rule: finding for finding in reversed(unspoken)}.values())


def alarms(console: Console, audit: Audit) -> None:
    """Print errors that no verdict speaks of, above the verdicts: a report must not open with `passed` then."""
    found = unspoken_errors(audit)
    for finding in found:
        line = Text(f"error {finding.rule} {finding.name}: {printable(finding.message)}", style="bold red")
        line.truncate(console.width, overflow="ellipsis")
        console.print(line)
    if found:
        console.print()


def verdicts(console: Console, audit: Audit) -> None:
    """Print the five verdicts with their reasons, and what to give to decide the rest."""
    table = Table.grid(padding=(0, 2))
    for verdict in audit.verdicts:
        reason = printable(verdict.reason)
        table.add_row(Text(verdict.outcome.value, OUTCOME_STYLES[verdict.outcome]), verdict.question.claim, reason)
    console.print(Padding(table, (0, 0, 0, 2)))
    needs = list(dict.fromkeys(verdict.needs for verdict in audit.verdicts if verdict.needs))
    longest = printable(max(needs, key=len, default=""))
    if audit.required:
        required = ", ".join(question.value for question in audit.required)
        console.print(Padding(Text(f"required: {required}", style="dim"), (0, 0, 0, 2)))
    if longest and not _said_of_the_run(audit, longest):
        console.print(Padding(Text(f"What is not checked needs {longest}.", style="dim"), (0, 0, 0, 2)))
    console.print()


def required_open(console: Console, audit: Audit) -> None:
    """Print a line for each required verdict that did not pass; for artifacts whose verdicts are not printed."""
    failed = [v for v in audit.verdicts if v.question in audit.required and v.outcome is Outcome.FAILED]
    not_passed = [verdict for verdict in audit.verdicts if verdict in failed or verdict in audit.undecided]
    for verdict in not_passed:
        line = Text(verdict.outcome.value, OUTCOME_STYLES[verdict.outcome])
        line.append(f"  {verdict.question.claim}, required: {printable(verdict.reason)}")
        needs = f" (needs {printable(verdict.needs)})" if verdict.needs else ""
        console.print(Padding(line.append(needs), (0, 0, 0, 2)))
    if not_passed:
        console.print()


def _said_of_the_run(audit: Audit, needs: str) -> bool:
    """Whether the lines on the run, which follow, say what to give."""
    if audit.measured is None:
        return bool(audit.run_needs)
    return audit.measured.synthetic and "--inputs" in needs
