"""What in the settings, or in a baseline, fits nothing in what was audited."""

from __future__ import annotations

from bnaudit.policy.policy import Policy
from bnaudit.results import Acceptance, Report, Unmatched


def unmatched(policy: Policy, report: Report, more: tuple[Acceptance, ...]) -> tuple[Unmatched, ...]:
    """Patterns that fit no layer (errors), then accepted findings that are gone."""
    return ()
