"""Findings, verdicts and limits as the objects of the JSON reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bnaudit.json_numbers import number
from bnaudit.results import Acceptance, Finding, Verdict


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """One verdict as the schemas have it."""
    return {
        "question": verdict.question.value,
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "needs": verdict.needs,
    }


def finding_object(finding: Finding) -> dict[str, Any]:
    """One finding as the schemas have it."""
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.label,
        "confidence": finding.confidence.label,
        "artifact": finding.artifact,
        "part": finding.part,
        "layer": finding.layer,
        "message": finding.message,
        "value": number(finding.value),
        "limit": number(finding.limit),
        "advice": finding.advice,
        "channels": list(finding.channels),
        "question": finding.question.value if finding.question is not None else None,
        "intended": finding.intended,
        "accepted": finding.accepted,
        "acceptance": _acceptance(finding.acceptance) if finding.acceptance is not None else None,
        "fingerprint": finding.fingerprint,
    }


def limits_object(limits: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Limits of the settings as the schemas have them."""
    return {rule: {name: number(value) for name, value in own.items()} for rule, own in sorted(limits.items())}


def _acceptance(acceptance: Acceptance) -> dict[str, Any]:
    return {
        "source": acceptance.source,
        "reason": acceptance.reason,
        "until": acceptance.until or None,
        "expired": acceptance.expired,
    }
