"""One artifact as an object of its own, a line of JSON Lines: `artifact-1.schema.json` in `reports/`, versioned."""

from __future__ import annotations

from typing import Any

from bnaudit import __version__
from bnaudit.comparison_objects import brief_object
from bnaudit.finding_objects import finding_object, limits_object, verdict_object
from bnaudit.json_text import json_text
from bnaudit.records import Record
from bnaudit.results import Audit, Unaudited

SCHEMA = "bnaudit.artifact/1"


class HoldsFor(Record):
    """What a line was made from: while it is the same, auditing again would give the same line."""

    size: int
    """Bytes of the file."""
    mtime_ns: int
    """When it was changed last, in nanoseconds since 1970."""
    folder: str = ""
    """Digest of the names, sizes and times of a model folder, or of the files beside one that refers to others."""
    settings: str
    """Digest of the settings, and of the files that they name."""


def artifact_line(entry: Audit | Unaudited, holds_for: HoldsFor | None = None) -> str:
    """The entry as one line that ends; None: nobody knows what it was made from."""
    return line_of(artifact_object(entry, holds_for))


def line_of(line: dict[str, Any]) -> str:
    """The object as one line that ends."""
    return json_text(line) + "\n"


def artifact_object(entry: Audit | Unaudited, holds_for: HoldsFor | None = None) -> dict[str, Any]:
    """The entry as the schema has it: every field in every object, whether it was audited or not."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "path": entry.artifact.path if isinstance(entry, Audit) else entry.path,
        "exit_code": entry.exit_code,
        "audited": isinstance(entry, Audit),
        "reason": "" if isinstance(entry, Audit) else entry.why,
        "error": not isinstance(entry, Audit) and entry.error,
        **(_conclusions(entry) if isinstance(entry, Audit) else _NOTHING),
        "holds_for": {field: getattr(holds_for, field) for field in HoldsFor._fields} if holds_for else None,
    }


def _conclusions(audit: Audit) -> dict[str, Any]:
    return {
        "format": audit.artifact.format,
        "size": audit.artifact.size,
        "looked": audit.looked,
        "fail_on": audit.fail_on.label,
        "required": [question.value for question in audit.required],
        "limits": limits_object(audit.limits),
        "verdicts": [verdict_object(verdict) for verdict in audit.verdicts],
        "findings": [finding_object(finding) for finding in audit.findings],
        "skipped_rules": [skipped.rule for skipped in audit.skipped],
        "failed": [{"rule": f.rule, "name": f.name, "error": f.error} for f in audit.failed],
        "unread_parts": len(audit.gaps),
        "run": audit.measured is not None,
        "not_run": audit.not_run,
        "run_needs": audit.run_needs,
        "run_failed": audit.run_failed,
        "compared_with": brief_object(audit.comparison) if audit.comparison is not None else None,
    }


_NOTHING: dict[str, Any] = {
    "format": None,
    "size": None,
    "looked": False,
    "fail_on": None,
    "required": [],
    "limits": {},
    "verdicts": [],
    "findings": [],
    "skipped_rules": [],
    "failed": [],
    "unread_parts": 0,
    "run": False,
    "not_run": "",
    "run_needs": "",
    "run_failed": False,
    "compared_with": None,
}
