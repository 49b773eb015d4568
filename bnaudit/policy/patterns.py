"""Patterns of layers and modules in the settings that fit nothing in what was audited: probably mistyped."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from bnaudit.policy.known_names import known_names, lists_all_modules, suggestion
from bnaudit.policy.policy import Policy
from bnaudit.policy.ran_rules import is_static, of_prefix, ran
from bnaudit.policy.sections import Section
from bnaudit.results import Audit, Unmatched
from bnaudit.settings import Settings

_MOST_NAMES = 5_000
"""That the nearest one is chosen from."""


class _Wanted:
    """One pattern in one place of the settings."""

    def __init__(self, section: Section, name: str, rule: str, pattern: str) -> None:
        self.section, self.name, self.rule, self.pattern = section, name, rule, pattern
        self.fits = False
        self.is_known = True
        self.was_asked = False
        self.names: set[str] = set()

    @property
    def place(self) -> str:
        """Its key, or the option as it was typed."""
        place = self.section.places[self.name]
        if place.typed:
            text = f"{self.rule}={self.pattern}" if self.rule else self.pattern
            return f"{place.text} {text}"
        return place.inside(self.rule).text if self.rule else place.text

    def look_at(self, audit: Audit, names: set[str], settings: Settings) -> None:
        """Whether it fits here, and whether that can be known."""
        if any(fnmatchcase(name, self.pattern) for name in names):
            self.fits = True
        elif self.rule:
            asked = bool(ran(self.rule, audit, settings))
            complete = all(map(is_static, of_prefix(self.rule))) or lists_all_modules(audit)
            self._judge(asked, complete, audit, names)
        else:
            self._judge(any(part.layers for part in audit.description.parts), True, audit, names)

    def _judge(self, asked: bool, complete: bool, audit: Audit, names: set[str]) -> None:
        self.was_asked |= asked
        if asked:
            self.is_known &= complete and not any(gap.hides_norms for gap in audit.gaps)
        if len(self.names) < _MOST_NAMES:
            self.names |= names

    def told(self) -> Unmatched:
        """The entry of the report."""
        kind = "layer or module" if self.rule else "layer"
        why = f"{self.pattern!r} fits no {kind} of what was audited: {suggestion(self.pattern, self.names)}"
        return Unmatched(key=self.place, why=why, error=True)


class Patterns:
    """All patterns that were in force in some audited artifact."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._wanted: dict[tuple[str, str, str, str], _Wanted] = {}

    def look_at(self, audit: Audit, path: Path | None) -> None:
        """Let each pattern that is in force for this artifact (None: a live model) be tried on its names."""
        settings = self._policy.settings(path)
        pending = [wanted for wanted in self._in_force(path) if not wanted.fits]
        names = known_names(audit) if pending else set()
        for wanted in pending:
            wanted.look_at(audit, names, settings)

    def missing(self) -> Iterator[tuple[Section, bool, Unmatched]]:
        """Those that fit nothing although that can be known: the section, whether it hides findings, the entry."""
        for wanted in self._wanted.values():
            if wanted.was_asked and wanted.is_known and not wanted.fits:
                yield wanted.section, not wanted.rule, wanted.told()

    def _in_force(self, path: Path | None) -> Iterator[_Wanted]:
        found = self._policy.in_force(self._policy.sections_for(path))
        for given in found.get("layers", {}).values():
            for pattern in cast("tuple[str, ...]", given.value):
                yield from self._entry(given.section, "layers", "", pattern)
        for given in found.get("intended", {}).values():
            rule, pattern = cast("tuple[str, str]", given.value)
            yield from self._entry(given.section, "intended", rule, pattern)

    def _entry(self, section: Section, name: str, rule: str, pattern: str) -> Iterator[_Wanted]:
        if pattern != "*":
            key = (section.source, name, rule, pattern)
            yield self._wanted.setdefault(key, _Wanted(section, name, rule, pattern))
