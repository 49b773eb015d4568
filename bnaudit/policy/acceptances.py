"""Accepted findings, of the settings and of a baseline, that are gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from bnaudit.policy.artifact_paths import concerns, exists, literal
from bnaudit.policy.coverage import Coverage
from bnaudit.policy.entries_by_path import EntriesByPath
from bnaudit.policy.ran_rules import of_prefix, ran
from bnaudit.results import Acceptance, Audit, Unmatched
from bnaudit.settings import Settings


class Acceptances:
    """Entries, each tried on the findings of every audited artifact."""

    def __init__(self, entries: tuple[Acceptance, ...]) -> None:
        self._entries = entries
        self._by_path = EntriesByPath(entries)
        self._fitting: set[int] = set()
        self._judged: set[int] = set()
        self._unknown: set[int] = set()

    def look_at(self, audit: Audit, settings: Settings) -> None:
        """Note which entries fit a finding here, and for which of them a rule looked in vain."""
        for entry in self._about(audit.artifact.path):
            if _fits(entry, audit):
                self._fitting.add(id(entry))
                continue
            self._judged.add(id(entry))
            if not _would_be_found(entry, audit, settings):
                self._unknown.add(id(entry))

    def gone(self, coverage: Coverage) -> Iterator[Unmatched]:
        """Those that fit nothing although all that they are about was audited, or that name no file that exists."""
        for entry in self._entries:
            if id(entry) in self._fitting:
                continue
            if entry.artifact != "*" and not _exists(_file(literal(entry.artifact) or entry.artifact), entry.root):
                yield _told(entry, "fits no file that exists", "take it away, or correct the path")
            elif id(entry) in self._judged - self._unknown and _covered(entry, coverage):
                ended = f"expired on {entry.until} and " if entry.expired else ""
                yield _told(entry, f"{ended}fits no finding", "take it away")

    def _about(self, artifact: str) -> Iterator[Acceptance]:
        yield from self._by_path.of(Path(artifact))
        for entry in self._by_path.of_patterns:
            if concerns(Path(artifact), entry.artifact, Path(entry.root)):
                yield entry


def _fits(entry: Acceptance, audit: Audit) -> bool:
    alone = Settings(accept=(entry,))
    return any(
        alone.acceptance(found.rule, found.layer, found.fingerprint, found.artifact) is not None
        for found in audit.findings
    )


def _would_be_found(entry: Acceptance, audit: Audit, settings: Settings) -> bool:
    """Whether every rule that the entry is about looked at every layer here."""
    hidden = bool(settings.layers) or any(gap.hides_norms for gap in audit.gaps)
    return not hidden and ran(entry.rule, audit, settings) == frozenset(of_prefix(entry.rule))


def _covered(entry: Acceptance, coverage: Coverage) -> bool:
    if entry.artifact == "*":
        return coverage.of_policy and not coverage.broken
    return coverage.of_pattern(entry.artifact, Path(entry.root))


def _file(pattern: str) -> str:
    """Of a live model, the file or folder of its code."""
    file, colon, name = pattern.rpartition(":")
    if not colon or not name.isidentifier():
        return pattern
    return file if file.endswith(".py") else os.curdir


@lru_cache(maxsize=4096)
def _exists(pattern: str, root: str) -> bool:
    return exists(pattern, Path(root))


def _told(entry: Acceptance, what: str, remedy: str) -> Unmatched:
    named = " ".join([entry.rule, *([f"on {entry.label}"] if entry.label else [])])
    where = f" in {literal(entry.artifact) or entry.artifact}" if entry.artifact != "*" else ""
    return Unmatched(key=entry.source, why=f"{named}{where} {what}: {remedy}", error=False)
