"""The report as workflow commands of GitHub Actions: annotations, worst first, then the whole result for the log.

GitHub shows at most 10 errors, 10 warnings and 10 notices of a step, 50 of a job. A group of findings is one
annotation; where there are more groups than that, those of one rule are one over all artifacts, and the last
annotation says what is left out. https://docs.github.com/actions/reference/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bnaudit.artifact_paths import below_working_directory
from bnaudit.obstacles import checks_not_run, obstacles
from bnaudit.printable import printable
from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, Finding, Report, Severity
from bnaudit.terminal.amounts import counts_text, plural
from bnaudit.terminal.comparison_conclusion import conclusion
from bnaudit.terminal.comparison_tables import tables, title, told
from bnaudit.terminal.exit_meaning import last_line
from bnaudit.terminal.finding_places import grouped, layer_names, places, standing

MOST = 10
"""Annotations of one level that GitHub shows of a step."""
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_PLACES = 6
"""Lines of places in one annotation."""
_LONGEST = 3000
"""Characters of a message; GitHub cuts what is longer than 4096 bytes."""


class _Annotation(NamedTuple):
    severity: Severity
    title: str
    lines: tuple[str, ...]
    path: str = ""
    """Of the artifact; "": of none, or of several."""


class _Group(NamedTuple):
    """Findings of one rule and advice in one artifact."""

    audit: Audit
    members: list[Finding]


def render(report: Report, view: View) -> str:
    """Commands, one a line, then the lines of the log."""
    lines: list[str] = []
    stated = list(_stated(report))
    groups = [_Group(audit, found) for audit in report.audits for found in grouped(audit.open_findings)]
    for severity in reversed(Severity):
        fixed = [each for each in stated if each.severity is severity]
        own = [group for group in groups if group.members[0].severity is severity]
        found = [_annotation(group) for group in own]
        if len(fixed) + len(found) > MOST:
            found = list(_over_artifacts(own))
        lines += [_command(each) for each in _at_most(fixed + found, severity)]
    return "\n".join([*lines, *_log(report, view)]) + "\n"


def _stated(report: Report) -> Iterator[_Annotation]:
    """What is no finding: the result, and obstacles."""
    yield _Annotation(Severity.NOTE, "bnaudit", (_result(report),))
    for audit in report.audits:
        if audit.comparison is not None:
            lines = (title(audit), *conclusion(audit.comparison))
            yield _Annotation(Severity.NOTE, "bnaudit: compared", lines, audit.artifact.path)
    for each in obstacles(report):
        if each.severity > Severity.NOTE:
            yield _Annotation(each.severity, f"bnaudit: {each.kind.words}", (each.text,), each.path)


def _result(report: Report) -> str:
    return f"{plural(len(report.audits), 'artifact')}: {last_line(report)}"


def _annotation(group: _Group) -> _Annotation:
    first = group.members[0]
    lines = [place.line for place in places(group.members, layer_names(group.audit))]
    return _Annotation(first.severity, _title(first), _message(lines, first), group.audit.artifact.path)


def _over_artifacts(groups: Iterable[_Group]) -> Iterator[_Annotation]:
    """One annotation for each rule and advice, with the artifacts that it is about."""
    alike: dict[tuple[str, str], list[_Group]] = {}
    for group in groups:
        alike.setdefault((group.members[0].rule, group.members[0].advice), []).append(group)
    for same in alike.values():
        if len(same) == 1:
            yield _annotation(same[0])
            continue
        first = same[0].members[0]
        lines = [f"in {len(same)} artifacts", *(_in_one_line(group) for group in same)]
        yield _Annotation(first.severity, _title(first), _message(lines, first))


def _in_one_line(group: _Group) -> str:
    found = places(group.members, layer_names(group.audit))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{printable(group.audit.artifact.path)}: {found[0].line}{more}"


def _title(finding: Finding) -> str:
    return f"{finding.rule} {finding.name}{' (intended)' if finding.intended else ''}"


def _message(lines: list[str], first: Finding) -> tuple[str, ...]:
    more = [f"and {len(lines) - _PLACES} more"] if len(lines) > _PLACES else []
    stands = [standing(first)] if standing(first) else []
    return (*lines[:_PLACES], *more, *stands, f"→ {printable(first.advice)}")


def _at_most(found: list[_Annotation], severity: Severity) -> list[_Annotation]:
    if len(found) <= MOST:
        return found
    kept = found[: MOST - 1]
    left = found[MOST - 1 :]
    titles = ", ".join(dict.fromkeys(each.title for each in left))
    return [*kept, _Annotation(severity, f"bnaudit: {len(left)} more", (f"{len(left)} more, see the log: {titles}",))]


def _command(each: _Annotation) -> str:
    message = "\n".join(each.lines)
    message = message if len(message) <= _LONGEST else message[:_LONGEST] + " …"
    below = below_working_directory(each.path) if each.path else None
    file = f",file={_property(below)}" if below is not None else ""
    return f"::{_COMMANDS[each.severity]} title={_property(each.title)}{file}::{_data(message)}"


def _data(text: str) -> str:
    """Text of a message, as the runner unescapes it."""
    escaped = "\n".join(printable(line) for line in text.split("\n"))
    return escaped.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Text of a property: the separators too."""
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def _log(report: Report, view: View) -> Iterator[str]:
    """Everything in lines that the runner takes for no command, folded in the log."""
    yield "::group::bnaudit: every artifact"
    for audit in report.audits:
        found = counts_text(audit.open_findings) or "no findings"
        said = ", ".join(f"{verdict.question.value} {verdict.outcome.value}" for verdict in audit.verdicts)
        yield _plain("; ".join(filter(None, (f"{title(audit)}: {found}", said))))
        yield from _compared(audit)
        shown = audit.findings if view.show_accepted else audit.open_findings
        for members in grouped(shown):
            first = members[0]
            stands = f" ({standing(first)})" if standing(first) else ""
            yield _plain(f"  {first.severity.label} {_title(first)}{stands}")
            yield from (_plain(f"    {place.line}") for place in places(members, layer_names(audit)))
            yield _plain(f"    → {printable(first.advice)}")
    for each in obstacles(report):
        yield _plain(f"{each.severity.label}: {each.text}")
    for waiting in checks_not_run(report):
        yield _plain(f"did not run in {waiting.where}: {waiting.rules}: needs {waiting.needs}")
    if report.other_files:
        yield _plain(f"{plural(report.other_files, 'other file')}: not a model")
    yield _plain(_result(report))
    yield "::endgroup::"


def _compared(audit: Audit) -> Iterator[str]:
    if audit.comparison is None:
        return
    yield from (_plain(f"  {line}") for line in (*conclusion(audit.comparison), *told(audit)))
    for listing in tables(audit.comparison):
        yield _plain(f"  {listing.title}: {', '.join(listing.columns)}")
        yield from (_plain(f"    {row[0]}: {', '.join(row[1:])}") for row in listing.rows)


def _plain(line: str) -> str:
    # A line that begins with `::`, blanks before it or not, is a command; so is `##[` wherever it stands.
    shown = line.replace("##[", "#\\x23[")
    return shown if not shown.lstrip().startswith("::") else shown.replace("::", "\\x3a:", 1)


RENDERER = Renderer(name="github", suffix=".txt", render=render)
