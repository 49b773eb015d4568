"""Checks that did not run, one line for each thing that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from bnaudit.obstacles import by_need
from bnaudit.printable import printable
from bnaudit.results import Audit, Report, Skipped


def skipped_checks(console: Console, audit: Audit, in_full: bool) -> None:
    """Print what did not run in one artifact and what it needs; `in_full` each check by its name."""
    groups = [[check] for check in audit.skipped] if in_full else list(by_need(audit.skipped).values())
    for checks in groups:
        # What a run needs stands below the verdicts, or above the findings of a comparison, already.
        many = len(checks) > 1 or audit.comparison is not None
        said = checks[0].needs in (audit.run_needs, audit.not_run) and many
        console.print(_waiting(checks) if said else _line(checks))


def skipped_everywhere(console: Console, report: Report) -> None:
    """Print the same for many artifacts: in how many a need was not met, and why a run that was tried did not work."""
    lacking: dict[tuple[str, str], int] = {}
    checks: dict[tuple[str, str], dict[str, Skipped]] = {}
    for audit in report.audits:
        tried = audit.not_run if not audit.run_needs else ""
        for need, skipped in by_need(audit.skipped).items():
            lacking[need, tried] = lacking.get((need, tried), 0) + 1
            checks.setdefault((need, tried), {}).update({check.rule: check for check in skipped})
    for (need, tried), found in checks.items():
        line = Text(f"in {lacking[need, tried]} of {len(report.audits)}: ", style="dim")
        line.append(_line([found[id] for id in sorted(found)]))
        console.print(line.append(f" ({printable(tried)})" if tried else ""))


def _line(checks: Sequence[Skipped]) -> Text:
    needs = printable(checks[0].needs)
    if len(checks) == 1:
        return Text(f"{checks[0].rule} {checks[0].name} did not run: it needs {needs}", style="dim")
    ids = ", ".join(_ranges([check.rule for check in checks]))
    return Text(f"{len(checks)} checks did not run ({ids}): they need {needs}", style="dim")


def _waiting(checks: Sequence[Skipped]) -> Text:
    ids = ", ".join(_ranges([check.rule for check in checks]))
    waiting = "1 check waits" if len(checks) == 1 else f"{len(checks)} checks wait"
    return Text(f"{waiting} for a run: {ids}", style="dim")


def _ranges(ids: Iterable[str]) -> list[str]:
    """`BN301–BN307, BN401`: ids in a row, three or more, as a range."""
    rows: list[list[str]] = []
    for id in sorted(set(ids)):
        if rows and _number(id) == _number(rows[-1][-1]) + 1:
            rows[-1].append(id)
        else:
            rows.append([id])
    return [f"{row[0]}–{row[-1]}" if len(row) > 2 else ", ".join(row) for row in rows]


def _number(id: str) -> int:
    return int(id.removeprefix("BN"))
