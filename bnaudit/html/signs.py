"""A sign for every outcome and severity, so that nothing is told by colour alone."""

from __future__ import annotations

from bnaudit.results import Outcome, Severity
from bnaudit.terminal.exit_meaning import Result

OUTCOME_SIGNS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.INCONCLUSIVE: "?", Outcome.NOT_CHECKED: "–"}
OUTCOME_CLASSES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.INCONCLUSIVE: "open",
    Outcome.NOT_CHECKED: "unchecked",
}
SEVERITY_SIGNS = {Severity.ERROR: "✗", Severity.WARNING: "▲", Severity.NOTE: "•"}


RESULT_SIGNS = {
    Result.PASSED: ("✓", "passed"),
    Result.WITH_WARNINGS: ("▲", "open"),
    Result.INFORMATION: ("–", "unchecked"),
    Result.FAILED: ("✗", "failed"),
    Result.INCOMPLETE: ("✗", "failed"),
    Result.MISTYPED: ("✗", "failed"),
    Result.UNDECIDED: ("?", "open"),
    Result.UNCHECKED: ("?", "open"),
    Result.INTERRUPTED: ("?", "open"),
}
"""Of what the page opens with: its sign, and its class in the style sheet."""
