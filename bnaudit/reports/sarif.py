"""The report as SARIF 2.1.0, for GitHub code scanning and for viewers of static analysis.

One result for each finding. Verdicts are properties of the run: a verdict that passes is no result, since GitHub
shows every result as an alert, of whatever kind.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from bnaudit.artifact_paths import uri
from bnaudit.comparison_objects import brief_object
from bnaudit.finding_objects import limits_object
from bnaudit.printable import printable
from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, Report
from bnaudit.sarif.invocation import invocation, notification_descriptors
from bnaudit.sarif.results import BASE, artifact_location, clipped, results
from bnaudit.sarif.rule_descriptors import descriptors

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 25_000
"""In one run; GitHub refuses a file with more, and shows the worst 5,000."""
SHOWN_RESULTS = 5_000
MOST_BYTES = 10_000_000
"""Compressed with gzip; GitHub refuses a larger file."""
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def render(report: Report, view: View) -> str:
    """One run in one document, at most as large as GitHub takes; what is left out is said in a notification."""
    kept = MOST_RESULTS
    while True:
        text = json.dumps(_document(report, kept), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        written = text.encode()
        if len(written) < MOST_BYTES or len(zlib.compress(written)) < MOST_BYTES or not kept:
            return text
        kept = min(kept, len(report.findings)) // 2


def _document(report: Report, most: int) -> dict[str, Any]:
    rules = descriptors(report)
    rule_indices = {rule["id"]: position for position, rule in enumerate(rules)}
    artifacts = _artifacts(report)
    artifact_indices = {artifact["location"]["uri"]: position for position, artifact in enumerate(artifacts)}
    found = results(report, rule_indices, artifact_indices)
    run = {
        "tool": {"driver": _driver(report, rules)},
        "invocations": [invocation(report, rule_indices, artifact_indices, _left_out(found, most))],
        "originalUriBaseIds": {BASE: {"description": {"text": "The directory in which bnaudit ran."}}},
        "artifacts": artifacts,
        "columnKind": "unicodeCodePoints",
        "results": found[:most],
        "properties": {
            "gate": report.gate,
            "exitZero": report.exit_zero,
            "interrupted": report.interrupted,
            "otherFiles": report.other_files,
            "audits": [_audit(audit) for audit in report.audits],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(report: Report, rules: list[dict[str, Any]]) -> dict[str, Any]:
    driver = {"name": "bnaudit", "version": report.version}
    if _SEMANTIC.fullmatch(report.version):
        driver["semanticVersion"] = report.version
    return {**driver, "notifications": notification_descriptors(), "rules": rules}


def _artifacts(report: Report) -> list[dict[str, Any]]:
    """Each file once; the length of what was not audited is not known."""
    named: dict[str, tuple[str, dict[str, int]]] = {uri(each.path): (each.path, {}) for each in report.unaudited}
    audited = [audit.artifact for audit in report.audits]
    named |= {uri(each.path): (each.path, {"length": each.size}) for each in audited}
    indices = {where: position for position, where in enumerate(named)}
    return [
        {"location": artifact_location(path, indices), **length, "roles": ["analysisTarget"]}
        for path, length in named.values()
    ]


def _left_out(found: list[dict[str, Any]], most: int) -> list[str]:
    if len(found) > most:
        return [f"{len(found) - most} of {len(found)} results are left out, the least bad ones: GitHub takes no more"]
    if len(found) > SHOWN_RESULTS:
        return [f"there are {len(found)} results, of which GitHub shows the worst {SHOWN_RESULTS}"]
    return []


def _audit(audit: Audit) -> dict[str, Any]:
    """What no result says: the five verdicts and what the exit code is made of."""
    stated: dict[str, Any] = {
        "artifact": clipped(audit.artifact.path),
        "format": printable(audit.artifact.format),
        "exitCode": audit.exit_code,
        "failOn": audit.fail_on.label,
        "required": [question.value for question in audit.required],
        "accepted": len(audit.findings) - len(audit.open_findings),
        "verdicts": {
            verdict.question.value: {
                "outcome": verdict.outcome.value,
                "reason": clipped(verdict.reason),
                "needs": clipped(verdict.needs),
            }
            for verdict in audit.verdicts
        },
    }
    if audit.limits:
        stated["limits"] = limits_object(audit.limits)  # a rule's descriptor has its own, for all artifacts
    if audit.comparison is not None:
        brief = brief_object(audit.comparison)
        stated["comparedWith"] = clipped(brief["baseline"]["path"])
        stated["parts"] = [clipped(brief["baseline_part"]), clipped(brief["subject_part"])]
        stated["conclusion"] = [clipped(line) for line in brief["conclusion"]]
    if audit.measured is not None:
        run = audit.measured
        stated["run"] = {"runner": clipped(run.runner), "inputs": clipped(run.inputs), "synthetic": run.synthetic}
    return stated


RENDERER = Renderer(name="sarif", suffix=".sarif", render=render)
