"""A sign for every outcome and severity, so that nothing is told by colour alone."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.results import Outcome, Severity

OUTCOME_SIGNS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.INCONCLUSIVE: "?", Outcome.NOT_CHECKED: "–"}
OUTCOME_CLASSES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.INCONCLUSIVE: "open",
    Outcome.NOT_CHECKED: "unchecked",
}
SEVERITY_SIGNS = {Severity.ERROR: "✗", Severity.WARNING: "▲", Severity.NOTE: "•"}


class Result(NamedTuple):
    """What the page opens with."""

    heading: str
    sign: str
    css: str


EXIT_RESULTS = {
    0: Result("Passed", "✓", "passed"),
    1: Result("Did not pass", "✗", "failed"),
    2: Result("Not audited completely", "✗", "failed"),
    3: Result("Not decided", "?", "open"),
    130: Result("Interrupted", "?", "open"),
}
PASSED_WITH_WARNINGS = Result("Passed, with warnings", "▲", "open")
ONLY_INFORMATION = Result("For information", "–", "unchecked")
