"""Colours that read on light and on dark: the sixteen of the terminal's own theme."""

from __future__ import annotations

from bnaudit.results import Outcome, Severity

OUTCOME_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NOT_CHECKED: "dim",
}
SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
