"""What in the settings, or in a baseline, fits nothing in what was audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bnaudit.policy.acceptances import Acceptances
from bnaudit.policy.coverage import Coverage
from bnaudit.policy.patterns import Patterns
from bnaudit.policy.policy import Policy
from bnaudit.policy.sections import Section
from bnaudit.records import replace
from bnaudit.results import Acceptance, Audit, Report, Unaudited, Unmatched


def unmatched(policy: Policy, report: Report, more: tuple[Acceptance, ...]) -> tuple[Unmatched, ...]:
    """Patterns that fit no layer (errors), then accepted findings, `more` too, that are gone.

    Only what can be known is told: where an artifact that a pattern may be about was not audited, or no rule looked,
    nothing is said.
    """
    matching = Matching(policy, more)
    for audit in report.audits:
        matching.look_at(audit)
    for unaudited in report.unaudited:
        matching.look_at(unaudited)
    return () if report.interrupted else matching.unmatched()


class Matching:
    """`unmatched` in steps, for audits that are not kept until the end."""

    def __init__(self, policy: Policy, more: tuple[Acceptance, ...] = ()) -> None:
        self._policy = policy
        self._patterns = Patterns(policy)
        self._acceptances = Acceptances((*policy.settings(None).accept, *more))
        self._coverage = Coverage(policy)

    def look_at(self, entry: Audit | Unaudited) -> None:
        """Try all patterns and entries on one audit, and note what could not be audited."""
        self._coverage.add(entry)
        if isinstance(entry, Unaudited):
            return
        is_live = entry.artifact.format.startswith("live model")
        path = None if is_live else Path(entry.artifact.path)
        self._patterns.look_at(entry, path)
        self._acceptances.look_at(entry, self._policy.settings(path))

    def unmatched(self) -> tuple[Unmatched, ...]:
        """What fitted nothing, after the last of them. Not to be asked when the audits were interrupted."""
        return (*self._mistyped(self._coverage), *self._acceptances.gone(self._coverage))

    def _mistyped(self, coverage: Coverage) -> Iterator[Unmatched]:
        for section, hides, entry in self._patterns.missing():
            if not coverage.broken and self._covers(section, coverage):
                # Settings without paths may mean an artifact that was not given. A pattern of `layers` that fits
                # nothing hides all findings, whatever other artifacts there are.
                of_others = section is self._policy.top and not self._policy.paths
                yield replace(entry, error=hides or not of_others)

    def _covers(self, section: Section, coverage: Coverage) -> bool:
        """Whether all artifacts of the section were audited; what was typed is about those that were."""
        if section is self._policy.typed:
            return True
        return coverage.of_pattern(section.pattern, self._policy.root) if section.pattern else coverage.of_policy
