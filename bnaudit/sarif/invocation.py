"""What happened, as a SARIF invocation: exit code, what broke, what was not audited, what did not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bnaudit.obstacles import Kind, Obstacle, checks_not_run, obstacles
from bnaudit.results import Report
from bnaudit.sarif.results import artifact_location, clipped
from bnaudit.terminal.exit_meaning import meaning

_SUCCESSFUL = (0, 1, 3)
"""Exit codes of an audit that ran to its end, whatever it found."""
LEFT_OUT, DID_NOT_RUN = "left-out", "did-not-run"


def notification_descriptors() -> list[dict[str, Any]]:
    """What notifications there are."""
    ids = [*(kind.value for kind in Kind), LEFT_OUT, DID_NOT_RUN]
    return [{"id": id, "shortDescription": {"text": id.replace("-", " ")}} for id in ids]


_INDICES = {descriptor["id"]: position for position, descriptor in enumerate(notification_descriptors())}


def invocation(
    report: Report, rule_indices: Mapping[str, int], artifact_indices: Mapping[str, int], left_out: Iterable[str]
) -> dict[str, Any]:
    """The one invocation. `left_out` are sentences on what this document does not hold."""
    found = obstacles(report)
    executed = [
        _notification(each, rule_indices, artifact_indices) for each in found if each.kind is not Kind.UNMATCHED
    ]
    executed += [_plain(LEFT_OUT, "warning", text) for text in left_out]
    configured = [_notification(each, rule_indices, artifact_indices) for each in found if each.kind is Kind.UNMATCHED]
    configured += _skipped(report)
    return {
        "executionSuccessful": report.exit_code() in _SUCCESSFUL,
        "exitCode": report.exit_code(),
        "exitCodeDescription": meaning(report),
        "toolExecutionNotifications": executed,
        "toolConfigurationNotifications": configured,
    }


def _notification(
    each: Obstacle, rule_indices: Mapping[str, int], artifact_indices: Mapping[str, int]
) -> dict[str, Any]:
    notification = _plain(each.kind.value, each.severity.label, each.text)
    if each.path:
        physical = {"artifactLocation": artifact_location(each.path, artifact_indices)}
        notification["locations"] = [{"physicalLocation": physical}]
    if each.rule in rule_indices:
        notification["associatedRule"] = {"id": each.rule, "index": rule_indices[each.rule]}
    return notification


def _plain(kind: str, level: str, text: str) -> dict[str, Any]:
    return {"descriptor": {"id": kind, "index": _INDICES[kind]}, "level": level, "message": {"text": clipped(text)}}


def _skipped(report: Report) -> list[dict[str, Any]]:
    return [
        _plain(DID_NOT_RUN, "note", f"{each.rules} did not run in {each.where}: needs {each.needs}")
        for each in checks_not_run(report)
    ]
