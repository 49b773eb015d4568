"""A sign for every outcome and severity, so that nothing is told by colour alone."""

from __future__ import annotations

from bnaudit.results import Outcome, Severity

OUTCOME_SIGNS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.INCONCLUSIVE: "?", Outcome.NOT_CHECKED: "–"}
OUTCOME_CLASSES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.INCONCLUSIVE: "open",
    Outcome.NOT_CHECKED: "unchecked",
}
SEVERITY_SIGNS = {Severity.ERROR: "✗", Severity.WARNING: "▲", Severity.NOTE: "•"}
EXIT_HEADINGS = {0: "Passed", 1: "Did not pass", 2: "Not audited completely", 3: "Not decided", 130: "Interrupted"}
EXIT_SIGNS = {0: "✓", 1: "✗", 2: "✗", 3: "?", 130: "?"}
EXIT_CLASSES = {0: "passed", 1: "failed", 2: "failed", 3: "open", 130: "open"}
