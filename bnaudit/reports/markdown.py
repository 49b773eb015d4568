"""The report as Markdown, for a comment on a pull request and for the summary of a step.

The first line is a comment by which a bot finds its own comment again. GitHub takes at most 65,536 characters of a
comment: what does not fit is left out from the least needed on, and the last line says what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from bnaudit.markdown_text import cell, cell_code, code, html_code, prose
from bnaudit.obstacles import Kind, checks_not_run, obstacles
from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, Finding, LedgerRow, Outcome, Question, Report, Severity, Verdict
from bnaudit.terminal.amounts import counts_text, plural, seconds_text, share, span
from bnaudit.terminal.comparison_conclusion import conclusion
from bnaudit.terminal.comparison_tables import Listing, sides, tables, title, told
from bnaudit.terminal.exit_meaning import last_line, result
from bnaudit.terminal.finding_places import Place, grouped, layer_names, places, qualifiers, standing

MARKER = "<!-- bnaudit -->"
LONGEST = 65_536
"""Characters that GitHub takes of a comment."""
_RESERVE = 600
"""For the line that says what was left out."""
_TABLE_SHARE = 24_000
"""Characters of the table of artifacts at most: the findings need room too."""
_PLACES = 8
_LEDGER_ROWS = 30


class _Section(NamedTuple):
    """A piece that is there as a whole or not at all."""

    text: str
    what: str
    """What is left out with it, for the last line: `findings of 1 artifact`."""
    need: int
    """Sections of a lower number are put in first."""


def render(report: Report, view: View) -> str:
    """Heading, table, obstacles, findings; then, folded, notes, accepted findings, the ledger and what did not run."""
    head = "\n".join([MARKER, *_heading(report)])
    sections = list(_sections(report))
    kept = _fitting(sections, LONGEST - len(head) - _RESERVE)
    left: dict[str, int] = {}
    for position, section in enumerate(sections):
        if position not in kept:
            left[section.what] = left.get(section.what, 0) + 1
    texts = [head, *(section.text for position, section in enumerate(sections) if position in kept)]
    if left:
        said = ", ".join(f"{what} ({count})" for what, count in left.items())
        texts.append(f"Left out, to stay below {LONGEST:,} characters: {said}.")
    return "\n\n".join(texts) + "\n"


def _fitting(sections: Sequence[_Section], room: int) -> set[int]:
    kept: set[int] = set()
    for position, section in sorted(enumerate(sections), key=lambda each: each[1].need):
        if len(section.text) + 2 <= room:
            room -= len(section.text) + 2
            kept.add(position)
    return kept


def _heading(report: Report) -> list[str]:
    said = f"{plural(len(report.audits), 'artifact')}: {prose(last_line(report))}"
    return [f"## bnaudit: {result(report).value}", "", said]


def _sections(report: Report) -> Iterator[_Section]:
    yield from _table([audit for audit in report.audits if audit.comparison is None])
    found = obstacles(report)
    for each in found:
        if each.severity > Severity.NOTE:
            yield _Section(f"**{each.severity.label}** {each.kind.words}: {prose(each.text)}", "errors", 0)
    for audit in report.audits:
        yield from _comparison(audit)
        yield from _findings(audit, len(report.audits) == 1)
    yield from _notes(report)
    yield from _accepted(report)
    for audit in report.audits:
        yield from _ledger(audit)
    # Why many artifacts were not run stands, counted, with the checks that want a run.
    stated = [each for each in found if len(report.audits) == 1 or each.kind is not Kind.NOT_RUN]
    yield from _not_run(report, [each.text for each in stated if each.severity is Severity.NOTE])
    if report.other_files:
        yield _Section(f"{plural(report.other_files, 'other file')}: not a model", "other files", 4)


def _table(audits: Sequence[Audit]) -> Iterator[_Section]:
    if not audits:
        return
    questions = [question for question in Question if any(audit.verdicts for audit in audits)]
    titles = ["artifact", *(question.value for question in questions), "found"]
    lines = [f"| {' | '.join(titles)} |", "|" + " --- |" * len(titles)]
    rows = [_row(audit, questions) for audit in audits]
    # Those that do not pass come first when not all fit.
    order = sorted(range(len(rows)), key=lambda position: (audits[position].exit_code == 0, position))
    room, kept = _TABLE_SHARE, set[int]()
    for position in order:
        if len(rows[position]) <= room:
            room -= len(rows[position]) + 1
            kept.add(position)
    lines += [row for position, row in enumerate(rows) if position in kept]
    if len(kept) < len(rows):
        lines += ["", f"and {plural(len(rows) - len(kept), 'artifact')} more, not shown here"]
    yield _Section("\n".join(lines), "the table of artifacts", 0)


def _row(audit: Audit, questions: Sequence[Question]) -> str:
    verdicts = {verdict.question: _outcome(verdict, audit) for verdict in audit.verdicts}
    found = counts_text(audit.open_findings) or "nothing"
    cells = [cell_code(audit.artifact.path), *(verdicts.get(question, "") for question in questions), found]
    return f"| {' | '.join(cells)} |"


def _outcome(verdict: Verdict, audit: Audit) -> str:
    said = verdict.outcome.value
    if verdict.outcome is Outcome.FAILED or (verdict.question in audit.required and verdict in audit.undecided):
        said = f"**{said}**"
    return f"{said} (required)" if verdict.question in audit.required else said


def _comparison(audit: Audit) -> Iterator[_Section]:
    """What is held against what and the conclusion; the tables folded, but for the first rows of none."""
    if audit.comparison is None:
        return
    blocks = [f"### {code(title(audit))}"]
    blocks.append("\n".join(f"**{prose(line)}**  " for line in conclusion(audit.comparison)).rstrip())
    blocks.append("\n".join(f"- {role}: {prose(about)}" for role, about in sides(audit)))
    blocks += ["\n".join(f"- {prose(line)}" for line in told(audit))] if told(audit) else []
    yield _Section("\n\n".join(filter(None, blocks)), "the comparison", 0)
    for listing in tables(audit.comparison):
        yield _Section(_folded(listing.title, [_listing(listing)]), "tables of the comparison", 2)


def _listing(listing: Listing) -> str:
    lines = [f"| {' | '.join((listing.title, *listing.columns))} |", "|" + " --- |" * (len(listing.columns) + 1)]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in listing.rows[:_LEDGER_ROWS]]
    if len(listing.rows) > _LEDGER_ROWS:
        lines += ["", f"and {len(listing.rows) - _LEDGER_ROWS} more"]
    return "\n".join(lines)


def _findings(audit: Audit, alone: bool) -> Iterator[_Section]:
    worst = [finding for finding in audit.open_findings if finding.severity > Severity.NOTE]
    reasons = [f"- {v.outcome.value}: {v.question.claim}{_why(v)}" for v in audit.verdicts] if alone else []
    if not worst and not reasons:
        return
    run = _run(audit)
    blocks = [f"### {code(audit.artifact.path) if audit.comparison is None else 'Findings'}"]
    blocks += ["\n".join(reasons)] if reasons else []
    blocks += [run] if run else []
    blocks += _groups(audit, worst)
    failing = any(finding.severity is Severity.ERROR for finding in worst)
    yield _Section("\n\n".join(blocks), "findings of artifacts", 1 if failing else 2)


def _why(verdict: Verdict) -> str:
    needs = f" → {prose(verdict.needs)}" if verdict.needs else ""
    return (f" — {prose(verdict.reason)}" if verdict.reason else "") + needs


def _run(audit: Audit) -> str:
    run = audit.measured
    if run is None:
        return ""
    inputs = f"{prose(run.inputs)}{' (noise: structure, not sizes)' if run.synthetic else ''}"
    forwards = plural(run.forwards + run.extra_forwards, "forward")
    return f"run: {prose(run.runner)} · {inputs} · {forwards}, {seconds_text(run.seconds)}"


def _groups(audit: Audit, findings: Iterable[Finding]) -> list[str]:
    names = layer_names(audit)
    return [_group(members[0], places(members, names)) for members in grouped(findings)]


def _group(first: Finding, found: Sequence[Place]) -> str:
    stands = [prose(standing(first))] if standing(first) else []
    about = "; ".join([*qualifiers(first), *stands])
    said = f" ({about})" if about else ""
    lines = [f"**{first.severity.label} {first.rule}** {prose(first.name)}{said}", ""]
    lines += [f"- {_place(place)}" for place in found[:_PLACES]]
    if len(found) > _PLACES:
        lines.append(f"- and {len(found) - _PLACES} more")
    return "\n".join([*lines, "", f"→ {prose(first.advice)}"])


def _place(place: Place) -> str:
    said = prose(place.message) + (f" ({place.numbers})" if place.numbers else "")
    times = f" ×{place.times}" if place.times > 1 else ""
    return f"{code(place.where)}{times} — {said}" if place.where else said


def _folded(title: str, blocks: Iterable[str]) -> str:
    return "\n\n".join([f"<details><summary>{title}</summary>", *blocks, "</details>"])


def _notes(report: Report) -> Iterator[_Section]:
    notes = [finding for finding in report.findings if _is_open_note(finding)]
    if notes:
        yield _Section(_folded(counts_text(notes), _listed(report, _is_open_note)), "the notes", 3)


def _is_open_note(finding: Finding) -> bool:
    return finding.severity is Severity.NOTE and not finding.accepted


def _accepted(report: Report) -> Iterator[_Section]:
    accepted = [finding for finding in report.findings if finding.accepted]
    if accepted:
        listed = _listed(report, lambda finding: finding.accepted)
        yield _Section(_folded(plural(len(accepted), "accepted finding"), listed), "the accepted findings", 3)


def _listed(report: Report, chosen: Callable[[Finding], bool]) -> list[str]:
    """The findings that are chosen, each group below the path of its artifact."""
    blocks: list[str] = []
    for audit in report.audits:
        for group in _groups(audit, filter(chosen, audit.findings)):
            blocks += [code(audit.artifact.path), group]
    return blocks


def _ledger(audit: Audit) -> Iterator[_Section]:
    if not audit.ledger:
        return
    titles = ("layer", "norm", "channels", "batches", "initial", "mode", "saved")
    lines = [f"| {' | '.join(titles)} |", "|" + " --- |" * len(titles)]
    lines += [f"| {' | '.join(_cells(row))} |" for row in audit.ledger[:_LEDGER_ROWS]]
    if len(audit.ledger) > _LEDGER_ROWS:
        lines += ["", f"and {len(audit.ledger) - _LEDGER_ROWS} more"]
    title = f"ledger of {html_code(audit.artifact.path)}"
    yield _Section(_folded(title, ["\n".join(lines)]), "ledgers", 4)


def _cells(row: LedgerRow) -> list[str]:
    label = cell_code(f"{row.part}: {row.label or '(root)'}" if row.part else row.label or "(root)")
    times = f" ×{len(row.layers)}" if len(row.layers) > 1 else ""
    numbers = (span(row.channels), span(row.counter), share(row.residual))
    return [label + times, cell(row.kind), *numbers, cell(row.mode), cell(row.state)]


def _not_run(report: Report, stated: Sequence[str]) -> Iterator[_Section]:
    lines = [f"- {prose(text)}" for text in stated]
    for waiting in checks_not_run(report):
        lines.append(f"- {waiting.rules} did not run in {waiting.where}: needs {prose(waiting.needs)}")
    if lines:
        yield _Section(_folded("what did not run", ["\n".join(lines)]), "what did not run", 3)


RENDERER = Renderer(name="markdown", suffix=".md", render=render)
