"""Rules as SARIF reportingDescriptors; the rule's page is its help."""

from __future__ import annotations

import re
from typing import Any

from bnaudit.json_numbers import number
from bnaudit.printable import printable
from bnaudit.results import Report, Severity
from bnaudit.rules import Rule, load_rule, rule_files

_PROBLEM = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}
"""What GitHub code scanning calls them in `problem.severity`."""
_DESCRIPTION_LENGTH = 1000
"""GitHub takes at most 1024 characters of a description."""
_FAMILIES = {"BN1": "buffers", "BN2": "modes", "BN3": "neighbours", "BN4": "statistics", "BN5": "freezing"}


def descriptors(report: Report) -> list[dict[str, Any]]:
    """Every selected rule, and every other one that the report names, by id."""
    called = dict(report.rules or {})
    for audit in report.audits:
        called |= {each.rule: each.name for each in audit.findings}
        called |= {each.rule: each.name for each in audit.skipped}
        called |= {each.rule: each.name for each in audit.failed}
    called.pop("", None)  # a failure of no rule
    files = rule_files()
    return [_descriptor(load_rule(files[id])) if id in files else _unknown(id, called[id]) for id in sorted(called)]


def _descriptor(rule: Rule) -> dict[str, Any]:
    page = rule.doc.strip() + "\n"
    configuration: dict[str, Any] = {"level": rule.severity.label}
    if rule.limits:
        configuration["parameters"] = {name: number(limit) for name, limit in rule.limits.items()}
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": _what_it_finds(page)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": configuration,
        "properties": {
            "tags": _tags(rule),
            # A rule lowers the confidence of single findings; what it says without doing so is sure.
            "precision": "high",
            "problem.severity": _PROBLEM[rule.severity],
        },
    }


def _unknown(id: str, name: str) -> dict[str, Any]:
    words = printable(name) or id
    text = {"text": words}
    return {"id": id, "name": words, "shortDescription": text, "fullDescription": text, "help": text}


def _tags(rule: Rule) -> list[str]:
    tags = ["normalization", _FAMILIES.get(rule.id[:3], "safety")]
    if rule.question is not None and rule.question.value not in tags:
        tags.append(rule.question.value)
    return tags


def _what_it_finds(page: str) -> str:
    """The first section of the page in a few plain sentences, cut at the end of one."""
    section = page.split("\n## ", 2)[1] if "\n## " in page else page
    text = re.sub(r"[*`]", "", " ".join(section.split("\n", 1)[-1].split()))
    if len(text) <= _DESCRIPTION_LENGTH:
        return text
    cut = text[:_DESCRIPTION_LENGTH]
    return cut[: cut.rfind(". ") + 1] or cut.rsplit(" ", 1)[0] + " …"
