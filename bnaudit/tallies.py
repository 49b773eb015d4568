"""What an audit of any number of artifacts came to: counts, and the worst of what did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from bnaudit.results import Severity, Unmatched, overall

_SHOWN = 10
"""Of what did not pass, so many are kept by name."""
_ORDER = {2: 0, 1: 1, 3: 2}


class Found(NamedTuple):
    """A rule in one severity."""

    severity: Severity
    rule: str
    name: str


class Counted(NamedTuple):
    """What is counted of one artifact."""

    path: str
    exit_code: int
    audited: bool
    error: bool
    """It should have been audited and could not be."""
    reason: str
    """Why it was not audited, or what was not decided or failed; "" when findings say it."""
    looked: bool
    fail_on: Severity | None
    found: Mapping[Found, int]
    """Findings that nobody accepted."""
    accepted: int

    @property
    def worst_first(self) -> tuple[int, int, str]:
        """Sorts what did not pass."""
        errors = sum(number for found, number in self.found.items() if found.severity is Severity.ERROR)
        return _ORDER.get(self.exit_code, 3), -errors, self.path


def counted(line: Mapping[str, Any]) -> Counted:
    """What is counted of a line of results. Raises KeyError, TypeError or ValueError when it is none."""
    findings = line["findings"]
    open_ones = [each for each in findings if not each["accepted"]]
    found = Counter(Found(Severity[each["severity"].upper()], each["rule"], each["name"]) for each in open_ones)
    return Counted(
        path=line["path"],
        exit_code=int(line["exit_code"]),
        audited=bool(line["audited"]),
        error=bool(line["error"]),
        reason=line["reason"] or _reason(line),
        looked=bool(line["looked"]),
        fail_on=Severity[line["fail_on"].upper()] if line["fail_on"] is not None else None,
        found=dict(found),
        accepted=len(findings) - len(open_ones),
    )


def _reason(line: Mapping[str, Any]) -> str:
    """What else than findings keeps an artifact from passing."""
    if not line["audited"]:
        return ""
    if line["failed"]:
        first = line["failed"][0]
        return f"{first['rule'] or first['name']} failed: {first['error']}"
    if line["run_failed"]:
        return str(line["not_run"])
    if not line["looked"]:
        return "nothing in it was checked"
    lacking = [
        f"{each['question']} {each['outcome']}"
        for each in line["verdicts"]
        if each["question"] in line["required"] and each["outcome"] != "passed"
    ]
    return ", ".join(lacking)


class Tally:
    """Counts that grow with each artifact; nothing else of it is kept."""

    def __init__(self, *, exit_zero: bool = False) -> None:
        self.exit_zero = exit_zero
        self.codes: Counter[int] = Counter()
        """How many artifacts give which exit code alone."""
        self.audited = 0
        self.errors = 0
        """Artifacts that should have been audited and could not be."""
        self.unread = 0
        """Artifacts of formats that are not read."""
        self.findings: Counter[Found] = Counter()
        self.artifacts_with: Counter[Found] = Counter()
        """Artifacts in which there is such a finding."""
        self.accepted = 0
        self.fail_on: set[Severity] = set()
        self.not_passing = 0
        self.worst: tuple[Counted, ...] = ()
        """The first of what did not pass, worst first."""
        self.looked = True
        """Whether anything was checked, in every artifact that was audited."""
        self.other_files = 0
        """Files of no model format met in folders."""
        self.kept = 0
        """Of all these, results that an earlier run had."""
        self.dropped = 0
        """Results of an earlier run that no longer hold, or were cut off."""
        self.unmatched: tuple[Unmatched, ...] = ()
        self.interrupted = False
        self.seconds = 0.0

    @property
    def total(self) -> int:
        """All artifacts, audited or not."""
        return self.audited + self.errors + self.unread

    def add(self, entry: Counted) -> None:
        """Count one artifact."""
        self.codes[entry.exit_code] += 1
        self.audited += entry.audited
        self.errors += entry.error
        self.unread += not entry.audited and not entry.error
        self.findings.update(entry.found)
        self.artifacts_with.update(entry.found.keys())
        self.accepted += entry.accepted
        self.looked = self.looked and (entry.looked or not entry.audited)
        if entry.fail_on is not None:
            self.fail_on.add(entry.fail_on)
        if entry.exit_code != 0:
            self.not_passing += 1
            self.worst = tuple(sorted((*self.worst, entry), key=lambda each: each.worst_first)[:_SHOWN])

    def exit_code(self) -> int:
        """As a gate's report on all of it gives: 2 goes before 1, 1 before 3; 130 interrupted."""
        if self.interrupted:
            return 130
        codes = {*self.codes, *(2 for entry in self.unmatched if entry.error)}
        if not self.audited or self.audited < self.total:
            codes.add(3)
        return overall(codes, excused=self.exit_zero and self.looked and self.audited > 0)
