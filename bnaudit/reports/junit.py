"""The report as JUnit XML, for the test pages of CI: one suite for each artifact, one case for each verdict and rule.

Every reason for which a gate does not pass is a failure or an error of some case. Times are 0 but for what a run took;
there are no timestamps, so that the same report is the same text.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bnaudit.name_patterns import Universe
from bnaudit.obstacles import required_text, unseen_text
from bnaudit.printable import printable
from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, Finding, Outcome, Report, Unaudited, Unmatched, Verdict
from bnaudit.terminal.comparison_conclusion import conclusion
from bnaudit.terminal.comparison_tables import title, told
from bnaudit.terminal.finding_places import grouped, layer_names, places, qualifiers, standing


class _Case(NamedTuple):
    """One test case and how it ended."""

    name: str
    ending: str = ""
    """`failure`, `error`, `skipped`; "": it passed."""
    message: str = ""
    text: str = ""
    """More lines; of one that passed, its output."""
    kind: str = ""
    """The type of a failure or error."""


def render(report: Report, view: View) -> str:
    """Suites in the order of the report: artifacts, what was not audited, settings, the run as a whole."""
    root = ET.Element("testsuites", name="bnaudit")
    for audit in report.audits:
        _suite(root, audit.artifact.path, _of_an_audit(audit, report.rules or {}), _seconds(audit))
    _suite(root, "not audited", [_unaudited(each, report.gate) for each in report.unaudited])
    _suite(root, "settings", [_unmatched(each) for each in report.unmatched])
    _suite(root, "bnaudit", _of_the_run(report))
    suites = list(root)
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.attrib[total]) for suite in suites)))
    root.set("time", f"{sum(float(suite.attrib['time']) for suite in suites):.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, name: str, cases: Sequence[_Case], seconds: float = 0.0) -> None:
    if not cases:
        return
    counted = {ending: str(sum(case.ending == ending for case in cases)) for ending in ("failure", "error", "skipped")}
    suite = ET.SubElement(
        root,
        "testsuite",
        name=printable(name),
        tests=str(len(cases)),
        failures=counted["failure"],
        errors=counted["error"],
        skipped=counted["skipped"],
        time=f"{seconds:.3f}",
    )
    for case in cases:
        element = ET.SubElement(suite, "testcase", classname=printable(name), name=printable(case.name), time="0.000")
        if case.ending:
            ending = ET.SubElement(element, case.ending, message=printable(case.message))
            if case.kind:
                ending.set("type", printable(case.kind))
            ending.text = case.text or None
        elif case.text:
            ET.SubElement(element, "system-out").text = case.text


def _seconds(audit: Audit) -> float:
    return audit.measured.seconds if audit.measured is not None else 0.0


def _of_an_audit(audit: Audit, names_of_rules: Mapping[str, str]) -> list[_Case]:
    cases = [*_comparison(audit), *(_verdict(verdict, audit) for verdict in audit.verdicts)]
    by_rule: dict[str, list[Finding]] = {}
    for finding in audit.findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    names = layer_names(audit)
    own = {id: name for id, name in names_of_rules.items() if not audit.selected or id in audit.selected}
    asked = {**own, **{finding.rule: finding.name for finding in audit.findings}}
    ran = sorted(set(asked) - _unrun(audit) | set(by_rule))
    cases += [_rule(f"{id} {asked[id]}", by_rule.get(id, []), audit, names) for id in ran]
    cases += [
        _Case(f"{each.rule} {each.name}", "skipped", f"did not run: it needs {each.needs}") for each in audit.skipped
    ]
    cases += [
        _Case(f"{each.rule} {each.name}".strip(), "error", f"internal failure: {each.error}", kind="internal failure")
        for each in audit.failed
    ]
    return cases + _whole(audit)


def _unrun(audit: Audit) -> set[str]:
    return {each.rule for each in audit.skipped} | {each.rule for each in audit.failed}


def _whole(audit: Audit) -> list[_Case]:
    """Cases on the artifact as a whole, only where something is wrong or unread."""
    cases = []
    if audit.run_failed:
        cases.append(_Case("run of the model", "error", f"could not run: {audit.not_run}", kind="not run"))
    if not audit.looked:
        cases.append(_Case("something was checked", "failure", unseen_text(audit), kind="nothing checked"))
    if audit.gaps:
        lines = "\n".join(f"{printable(gap.where)}: {printable(gap.why)}" for gap in audit.gaps)
        cases.append(_Case("everything was read", "skipped", f"{len(audit.gaps)} not read", lines))
    return cases


def _comparison(audit: Audit) -> list[_Case]:
    """What it came to; what fails of it are findings."""
    if audit.comparison is None:
        return []
    lines = (*conclusion(audit.comparison), *told(audit))
    return [_Case(title(audit), text="\n".join(map(printable, lines)))]


def _verdict(verdict: Verdict, audit: Audit) -> _Case:
    name = f"verdict {verdict.question.value}: {verdict.question.claim}"
    said = f"{verdict.outcome.value}: {verdict.reason}" if verdict.reason else verdict.outcome.value
    if verdict.outcome is Outcome.PASSED:
        return _Case(name, text=printable(verdict.reason))
    if verdict.outcome is Outcome.FAILED:
        asked = {*audit.required, *(finding.question for finding in audit.failing_findings)}
        if verdict.question in asked:
            return _Case(name, "failure", said, kind="verdict")
        return _Case(name, "skipped", f"{said}; it is not required")  # a failure here would fail what the gate passes
    if verdict.question in audit.required:
        return _Case(name, "failure", required_text(verdict), kind="required, not decided")
    return _Case(name, "skipped", f"{said}; it needs {verdict.needs}" if verdict.needs else said)


def _rule(name: str, found: Sequence[Finding], audit: Audit, names: Universe) -> _Case:
    text = _lines(found, names)
    failing = [finding for finding in found if finding in audit.failing_findings]
    if failing:
        first = places(failing, names)[0].line
        return _Case(name, "failure", f"{failing[0].severity.label}: {first}", text, failing[0].severity.label)
    if found and all(finding.accepted for finding in found):
        return _Case(name, "skipped", "; ".join(dict.fromkeys(standing(finding) for finding in found)), text)
    return _Case(name, text=text)


def _lines(found: Iterable[Finding], names: Universe) -> str:
    """The findings of one rule like in the terminal."""
    lines = []
    for members in grouped(found):
        first = members[0]
        about = ", ".join([first.severity.label, *qualifiers(first)])
        lines.append(f"{about}: {standing(first)}" if standing(first) else about)
        lines += [f"  {place.line}" for place in places(members, names)]
        lines.append(f"  → {printable(first.advice)}")
    return "\n".join(lines)


def _unaudited(each: Unaudited, gate: bool) -> _Case:
    ending = "error" if each.error else "failure" if gate else "skipped"
    return _Case(each.path, ending, each.why, kind="" if ending == "skipped" else "not audited")


def _unmatched(each: Unmatched) -> _Case:
    if each.error:
        return _Case(each.key, "error", each.why, kind="matches nothing")
    return _Case(each.key, "skipped", each.why)


def _of_the_run(report: Report) -> list[_Case]:
    cases = []
    if report.interrupted:
        cases.append(_Case("interrupted", "error", "this is what was found so far", kind="interrupted"))
    if not report.audits and not report.unaudited:
        cases.append(_Case("something was audited", "error", "nothing was audited", kind="nothing audited"))
    return cases


RENDERER = Renderer(name="junit", suffix=".xml", render=render)
