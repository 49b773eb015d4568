"""Puts the page together: a report becomes what the template shows."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from bnaudit.html.artifact import artifact_section
from bnaudit.html.environment import TEMPLATES, environment
from bnaudit.html.pictures import illustrated
from bnaudit.html.rule_pages import rule_pages
from bnaudit.html.signs import (
    EXIT_RESULTS,
    ONLY_INFORMATION,
    OUTCOME_CLASSES,
    OUTCOME_SIGNS,
    PASSED_WITH_WARNINGS,
    SEVERITY_SIGNS,
)
from bnaudit.reports import View
from bnaudit.results import Question, Report, Severity
from bnaudit.terminal.amounts import counts
from bnaudit.terminal.exit_meaning import meaning, open_findings
from bnaudit.terminal.summary import below, shared_folder

if TYPE_CHECKING:
    from markupsafe import Markup


def page(report: Report, view: View) -> str:
    """One HTML document that needs no other file. Raises UsageError when what it is made with is not installed."""
    template = environment().get_template("report.html")
    script, style = _verbatim("page.js"), _verbatim("page.css")
    folder = shared_folder(report)
    drawn = illustrated(report.audits)
    sections = [
        artifact_section(audit, position, below(audit.artifact.path, folder), with_pictures=position in drawn)
        for position, audit in enumerate(report.audits)
    ]
    text = template.render(
        report=report,
        view=view,
        folder=folder,
        sections=sections,
        alone=len(sections) == 1,
        pictured=len(drawn),
        questions=tuple(Question),
        rule_pages=rule_pages(id for section in sections for id in section.rules),
        found=", ".join(counted for _, counted in counts(open_findings(report))) or "no findings",
        accepted=len(report.findings) - len(open_findings(report)),
        meaning=meaning(report),
        below=lambda path: below(path, folder),
        style=style,
        script=script,
        script_hash=_hash(script),
        **_result(report),
        **_signs(),
    )
    return text.rstrip("\n") + "\n"


def _result(report: Report) -> dict[str, Any]:
    code = report.exit_code()
    shown = EXIT_RESULTS[code]
    if code == 0 and report.exit_zero and any(audit.exit_code for audit in report.audits):
        shown = ONLY_INFORMATION
    elif code == 0 and (report.worst or Severity.NOTE) >= Severity.WARNING:
        shown = PASSED_WITH_WARNINGS
    return {"code": code, "result": shown}


def _signs() -> dict[str, Any]:
    return {
        "outcome_signs": OUTCOME_SIGNS,
        "outcome_classes": OUTCOME_CLASSES,
        "severity_signs": SEVERITY_SIGNS,
    }


def _verbatim(name: str) -> Markup:
    """Our own file, put into the page as it is."""
    from markupsafe import Markup

    return Markup((TEMPLATES / name).read_text(encoding="utf-8").strip())


def _hash(script: str) -> str:
    """The script's hash as a Content-Security-Policy names it: no other script runs on the page."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
