"""What a tool reported, read from its own output, and whether that is the defect.

The rule is one for all tools. The problems that a tool reports on a defective net, less those that it reports on the
healthy one, word by word: if any is left, it *found* the defect, whatever it calls it. For bnaudit it is stricter: a
finding at warning or above whose rule is one of those written down for the defect. Where the form that a tool takes is,
bit for bit, the healthy net's, there is nothing to find: *not applicable*. A tool that ends in a traceback or says
nothing that can be read is *failed*, and found nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from enum import Enum


class Verdict(str, Enum):
    """One cell of the table."""

    FOUND = "found"
    NOT_FOUND = "not found"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


NAMED_BY: Mapping[str, Set[str]] = {
    "eval leak": {"BN202", "BN301", "BN401"},
    "partial leak": {"BN201", "BN202", "BN301", "BN401"},
    "no tracking": {"BN204", "BN211", "BN301"},
    "frozen but updating": {"BN404", "BN501"},
    "stale after freeze": {"BN205", "BN404"},
    "buffers stripped": {"BN101", "BN103"},
    "buffers reset": {"BN103"},
    "exported in training mode": {"BN201", "BN202"},
}
"""Defect → the rules of bnaudit that name it, or (BN301, BN404) the symptom that it has."""


def verdict(
    problems: frozenset[str] | None,
    healthy: frozenset[str] | None,
    named_by: Set[str] = frozenset(),
    same: bool = False,
) -> Verdict:
    """`named_by`: only problems that begin with one of these count; `same`: the form is the healthy net's."""
    if same:
        return Verdict.NOT_APPLICABLE
    if problems is None or healthy is None:
        return Verdict.FAILED
    new = problems - healthy
    if named_by:
        new = frozenset(problem for problem in new if problem.split(" ")[0] in named_by)
    return Verdict.FOUND if new else Verdict.NOT_FOUND


def driver(text: str, code: int) -> frozenset[str] | None:
    """Our own scripts: the last line is {"problems": [...]}."""
    last = (text.strip().splitlines() or [""])[-1]
    if code != 0 or not last.startswith("{"):
        return None
    return frozenset(json.loads(last)["problems"])


def bnaudit(text: str, code: int) -> frozenset[str] | None:
    """`--format json`: the findings at warning or error. Exit codes: 0, 1 findings, 3 not all was checked."""
    if code not in (0, 1, 3):
        return None
    findings = [finding for artifact in json.loads(text)["artifacts"] for finding in artifact["findings"]]
    return frozenset(f"{each['rule']} {each['layer']}" for each in findings if each["severity"] in ("warning", "error"))


def picklescan(text: str, code: int) -> frozenset[str] | None:
    """Exit code 1: it calls the file infected."""
    if code not in (0, 1) or "SCAN SUMMARY" not in text:
        return None
    return frozenset({"infected"} if code == 1 else ())


_CONDITION = re.compile(r"^\s*\[(?:WARN|ERROR|ERR)\] (\w+) .*\n\s*(.*)", re.MULTILINE)


def model_clinic(text: str, code: int) -> frozenset[str] | None:
    """`exam`: conditions at WARN or ERROR with their first line."""
    if "DIAGNOSIS" not in text and "VERDICT" not in text:
        return None
    return frozenset(f"{name}: {detail.strip()}" for name, detail in _CONDITION.findall(text))


def onnx_doctor(text: str, code: int) -> frozenset[str] | None:
    """`check --output-format json`: code and message of every diagnostic at warning or error."""
    start = text.find("[")
    if start < 0:
        return None
    entries, _ = json.JSONDecoder().raw_decode(text[start:])
    return frozenset(f"{each['code']}: {each['message']}" for each in entries if each.get("severity") != "info")


_LINT = re.compile(r"^\[[WE]\] (LINT \|.*|FAILED.*)", re.MULTILINE)


def polygraphy(text: str, code: int) -> frozenset[str] | None:
    """`check lint`: its lint entries, and that it failed."""
    if "Runtime:" not in text:
        return None
    found = {line.partition(" | Runtime")[0] for line in _LINT.findall(text)}
    return frozenset(found | ({"failed"} if code else set()))


Reader = Callable[[str, int], "frozenset[str] | None"]
