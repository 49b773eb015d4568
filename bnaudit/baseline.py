"""The baseline: a file of findings that are known and accepted, by fingerprints that survive retraining.

    {"schema": "bnaudit.baseline/1", "version": "0.1.0",
     "artifacts": {"models/a.pt": [{"rule": "BN105", "name": "immature-statistics", "part": "", "layer": "bn1",
                                    "fingerprint": "0123456789abcdef", "reason": "", "until": ""}]}}

An artifact's name is its path relative to the baseline's folder, or a shell pattern of such paths. A fingerprint is
made of rule, part and layer, never of numbers: see `auditing.py`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import date
from glob import escape
from pathlib import Path
from typing import Any

from bnaudit.errors import UsageError
from bnaudit.last_days import day_of, is_over
from bnaudit.results import Acceptance, Audit, Finding, Report

SCHEMA = "bnaudit.baseline/1"
_REMEDY = "make it anew with `bnaudit baseline create`"
_TEXTS = ("rule", "name", "part", "fingerprint", "reason", "until")
_OPTIONAL = ("name", "part", "reason", "until")


def read_baseline(path: Path, today: date | None = None) -> tuple[Acceptance, ...]:
    """What the file accepts. Raises UsageError when it is not there or no baseline, with the key that is wrong."""
    document = _document(path)
    found = []
    for artifact, entries in document["artifacts"].items():
        if not artifact:
            raise _wrong(path, 'artifacts.""', "this names no artifact")
        if not isinstance(entries, list):
            raise _wrong(path, f'artifacts."{artifact}"', "this is no list of findings")
        for position, entry in enumerate(entries):
            place = f'artifacts."{artifact}"[{position}]'
            found.append(_acceptance(path, artifact, _checked(path, place, entry), today or date.today()))
    return tuple(found)


def baseline_text(report: Report, path: Path, reason: str = "", known: Iterable[Acceptance] = ()) -> str:
    """The baseline, to be written at `path`, of all findings that fail the report now.

    What `known`, the baseline before, says of a finding (its reason, its end) is kept while it has not expired.
    """
    said = {(each.artifact, each.fingerprint): each for each in known if not each.expired}
    artifacts: dict[str, list[dict[str, str | None]]] = {}
    for audit in report.audits:
        name = _below(audit.artifact.path, path)
        failing = failing_now(audit)
        unique = {finding.fingerprint: finding for finding in reversed(failing)}
        if unique:
            ordered = sorted(unique.values(), key=lambda f: (f.rule, f.part, f.layer or "", f.fingerprint))
            artifacts[name] = [_entry(finding, reason, said.get((name, finding.fingerprint))) for finding in ordered]
    document = {"schema": SCHEMA, "version": report.version, "artifacts": dict(sorted(artifacts.items()))}
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def failing_now(audit: Audit) -> tuple[Finding, ...]:
    """Findings that keep the artifact from passing: by their severity, or by the required verdict that they fail."""
    failing = audit.failing_findings
    return tuple(
        finding
        for finding in audit.open_findings
        if finding in failing or (finding.fails and finding.question in audit.required)
    )


def _entry(finding: Finding, reason: str, before: Acceptance | None) -> dict[str, str | None]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "part": finding.part,
        "layer": finding.layer,
        "fingerprint": finding.fingerprint,
        "reason": reason or (before.reason if before is not None else ""),
        "until": before.until if before is not None else "",
    }


def _below(artifact: str, baseline: Path) -> str:
    """The artifact's path relative to the baseline's folder, as a pattern that fits nothing else."""
    path, folder = Path(artifact).absolute(), baseline.absolute().parent
    try:
        below = os.path.relpath(path, folder)
    except ValueError:  # another drive
        below = str(path)
    return escape(below.replace(os.sep, "/"))


def _document(path: Path) -> Mapping[str, Any]:
    try:
        if not path.is_file():  # a device may never end
            raise UsageError(f"the baseline {path} is no file", remedy=_REMEDY)
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        remedy = "check its permissions"
        raise UsageError(f"the baseline {path} cannot be read", where=str(error.strerror), remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the baseline {path} is not JSON", where=str(error), remedy=_REMEDY) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _wrong(path, "schema", f"this is not {SCHEMA}")
    if not isinstance(document.get("artifacts"), dict):
        raise _wrong(path, "artifacts", "there are none")
    return document


def _checked(path: Path, place: str, entry: object) -> dict[str, str]:
    if not isinstance(entry, dict):
        raise _wrong(path, place, "this is no finding")
    texts = {**dict.fromkeys(_OPTIONAL, ""), **entry}
    for key in _TEXTS:
        if not isinstance(texts.get(key), str):
            raise _wrong(path, f"{place}.{key}", "a text is missing")
    if not isinstance(texts.get("layer"), (str, type(None))):
        raise _wrong(path, f"{place}.layer", "this is no name of a layer")
    if not re.fullmatch("BN[0-9]{3}", texts["rule"]):
        raise _wrong(path, f"{place}.rule", f"{texts['rule']!r} is no id of a rule")
    if not re.fullmatch("[0-9a-f]{16}", texts["fingerprint"]):
        raise _wrong(path, f"{place}.fingerprint", "16 hexadecimal digits are missing")
    if texts["until"] and day_of(texts["until"]) is None:
        raise _wrong(path, f"{place}.until", f"{texts['until']!r} is no day", "write 2027-01-31")
    return texts


def _acceptance(path: Path, artifact: str, entry: Mapping[str, str], today: date) -> Acceptance:
    return Acceptance(
        source=str(path),
        rule=entry["rule"],
        reason=entry["reason"],
        until=entry["until"],
        expired=is_over(entry["until"], today),
        artifact=artifact,
        root=str(path.absolute().parent),
        fingerprint=entry["fingerprint"],
        label=entry.get("layer") or entry["part"],
    )


def _wrong(path: Path, key: str, what: str, remedy: str = _REMEDY) -> UsageError:
    return UsageError(what, where=f"{path}: {key}", remedy=remedy)
