"""Puts the page together: a report becomes what the template shows."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from bnaudit.html.artifact import artifact_section
from bnaudit.html.environment import TEMPLATES, environment
from bnaudit.html.pictures import illustrated
from bnaudit.html.rule_pages import rule_pages
from bnaudit.html.signs import OUTCOME_CLASSES, OUTCOME_SIGNS, RESULT_SIGNS, SEVERITY_SIGNS
from bnaudit.reports import View
from bnaudit.results import Question, Report
from bnaudit.terminal.exit_meaning import meaning, result, total
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
        found=total(report),
        meaning=meaning(report),
        below=lambda path: below(path, folder),
        style=style,
        script=script,
        script_hash=_hash(script),
        outcome_signs=OUTCOME_SIGNS,
        outcome_classes=OUTCOME_CLASSES,
        severity_signs=SEVERITY_SIGNS,
        **_result(report),
    )
    return text.rstrip("\n") + "\n"


def _result(report: Report) -> dict[str, Any]:
    ended = result(report)
    sign, css = RESULT_SIGNS[ended]
    return {"code": report.exit_code(), "heading": ended.value.capitalize(), "sign": sign, "css": css}


def _verbatim(name: str) -> Markup:
    """Our own file, put into the page as it is."""
    from markupsafe import Markup

    return Markup((TEMPLATES / name).read_text(encoding="utf-8").strip())


def _hash(script: str) -> str:
    """The script's hash as a Content-Security-Policy names it: no other script runs on the page."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
