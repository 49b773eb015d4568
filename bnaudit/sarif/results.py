"""Findings as SARIF results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from bnaudit.artifact_paths import below_working_directory, uri
from bnaudit.json_numbers import number
from bnaudit.printable import printable
from bnaudit.results import Finding, Report
from bnaudit.terminal.finding_places import numbers, standing

BASE = "%SRCROOT%"
"""The symbol of the working directory; GitHub takes what is relative to it as relative to the repository's root."""
_WHOLE_FILE = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
"""GitHub shows no result without lines and columns, of a binary file neither."""
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
"""What opens an embedded link in a SARIF message."""
_LONGEST = 2000
"""Characters of a name or sentence before it is cut; names come from files and may be of any length."""


def results(
    report: Report, rule_indices: Mapping[str, int], artifact_indices: Mapping[str, int]
) -> list[dict[str, Any]]:
    """All findings: those that nobody accepted first, worst first."""
    seen: dict[str, int] = {}
    found = []
    for finding in report.findings:
        where = uri(finding.artifact)
        identity = sha256(f"{where}\0{finding.fingerprint}".encode()).hexdigest()[:16]
        seen[identity] = seen.get(identity, 0) + 1
        result = {
            "ruleId": finding.rule,
            "ruleIndex": rule_indices[finding.rule],
            "kind": "fail",
            "level": finding.severity.label,
            "message": {"text": _message(finding)},
            "locations": [_location(finding, artifact_indices)],
            "partialFingerprints": _fingerprints(f"{identity}:{seen[identity]}"),
            "properties": _properties(finding),
        }
        if finding.accepted or finding.intended:
            result["suppressions"] = [_suppression(finding)]
        found.append((finding, result))
    found.sort(key=lambda each: (each[0].accepted or each[0].intended, -each[0].severity))
    return [result for _, result in found]


def artifact_location(path: str, artifact_indices: Mapping[str, int]) -> dict[str, Any]:
    """Where the artifact is, relative to the working directory if it is below it."""
    where = uri(path)
    location: dict[str, Any] = {"uri": where}
    if below_working_directory(path) is not None:
        location["uriBaseId"] = BASE
    if where in artifact_indices:
        location["index"] = artifact_indices[where]
    return location


def clipped(text: str) -> str:
    """The text printable, cut when it is very long, and with nothing in it that SARIF would take as a link."""
    shown = printable(text)
    shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + " …"
    return _LINK.sub(r"\\[", shown)


def _message(finding: Finding) -> str:
    # The first sentence stands alone where there is little room: place, what, number.
    place = _full_name(finding)
    first = f"{place}: {finding.message}" if place else finding.message
    found = numbers([finding])
    sentences = [f"{first} ({found})" if found else first]
    if finding.intended:
        sentences.append("The settings intend it")
    elif stands := standing(finding):
        sentences.append(stands[0].upper() + stands[1:])
    sentences.append(f"What to do: {finding.advice}")
    return " ".join(f"{clipped(sentence).rstrip('. ')}." for sentence in sentences)


def _full_name(finding: Finding) -> str:
    pieces = [finding.part] if finding.part else []
    pieces += [finding.layer or "(root)"] if finding.layer is not None else []
    return "/".join(pieces)


def _location(finding: Finding, artifact_indices: Mapping[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": artifact_location(finding.artifact, artifact_indices),
            "region": _WHOLE_FILE,
        }
    }
    if name := clipped(_full_name(finding)):
        last = finding.layer.rpartition(".")[2] if finding.layer else finding.layer
        own = clipped(last) if last else "(root)" if last is not None else clipped(finding.part)
        kind = "member" if finding.layer is not None else "module"
        location["logicalLocations"] = [{"name": own, "fullyQualifiedName": name, "kind": kind}]
    return location


def _fingerprints(identity: str) -> dict[str, str]:
    # GitHub compares by the second alone, and would make it of the file's first line, which training changes.
    return {"bnauditFingerprint/v1": identity, "primaryLocationLineHash": identity}


def _properties(finding: Finding) -> dict[str, Any]:
    stated = {
        "confidence": finding.confidence.label,
        "question": finding.question.value if finding.question is not None else None,
        "layer": clipped(finding.layer) if finding.layer is not None else None,
        "part": clipped(finding.part) or None,
        "value": _value(finding.value),
        "limit": _value(finding.limit),
        "channels": list(finding.channels) or None,
        "fingerprint": finding.fingerprint,
        "acceptanceExpired": True if finding.acceptance is not None and finding.acceptance.expired else None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _value(value: float | int | str | None) -> float | int | str | None:
    return clipped(value) if isinstance(value, str) else number(value)


def _suppression(finding: Finding) -> dict[str, Any]:
    suppression: dict[str, Any] = {"kind": "external", "status": "accepted"}
    if finding.acceptance is None:
        suppression["justification"] = "intended: the settings say that it is meant to be so"
        return suppression
    suppression["justification"] = clipped(finding.acceptance.reason) or "accepted, without a reason"
    written = {"source": clipped(finding.acceptance.source), "until": clipped(finding.acceptance.until)}
    suppression["properties"] = {name: text for name, text in written.items() if text}
    return suppression
