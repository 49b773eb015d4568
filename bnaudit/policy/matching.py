"""What in the settings, or in a baseline, fits nothing in what was audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bnaudit.policy.acceptances import Acceptances
from bnaudit.policy.coverage import Coverage
from bnaudit.policy.patterns import Patterns
from bnaudit.policy.policy import Policy
from bnaudit.policy.sections import Section
from bnaudit.results import Acceptance, Audit, Report, Unmatched


def unmatched(policy: Policy, report: Report, more: tuple[Acceptance, ...]) -> tuple[Unmatched, ...]:
    """Patterns that fit no layer (errors), then accepted findings, `more` too, that are gone.

    Only what can be known is told: where an artifact that a pattern may be about was not audited, or no rule looked,
    nothing is said.
    """
    matching = Matching(policy, more)
    for audit in report.audits:
        matching.look_at(audit)
    return matching.unmatched(report)


class Matching:
    """`unmatched` in steps, for audits that are not kept until the end."""

    def __init__(self, policy: Policy, more: tuple[Acceptance, ...] = ()) -> None:
        self._policy = policy
        self._patterns = Patterns(policy)
        self._acceptances = Acceptances((*policy.settings(None).accept, *more))

    def look_at(self, audit: Audit) -> None:
        """Try all patterns and entries on one audit."""
        is_live = audit.artifact.format.startswith("live model")
        path = None if is_live else Path(audit.artifact.path)
        self._patterns.look_at(audit, path)
        self._acceptances.look_at(audit, self._policy.settings(path))

    def unmatched(self, report: Report) -> tuple[Unmatched, ...]:
        """What fitted nothing. Of the report only the paths and whether it is whole are looked at."""
        if report.interrupted:
            return ()
        coverage = Coverage(self._policy, report)
        return (*self._mistyped(coverage), *self._acceptances.gone(coverage))

    def _mistyped(self, coverage: Coverage) -> Iterator[Unmatched]:
        for section, entry in self._patterns.missing():
            if not coverage.broken and self._covers(section, coverage):
                yield entry

    def _covers(self, section: Section, coverage: Coverage) -> bool:
        """Whether all artifacts of the section were audited; what was typed is about those that were."""
        if section is self._policy.typed:
            return True
        return coverage.of_pattern(section.pattern, self._policy.root) if section.pattern else coverage.of_policy
