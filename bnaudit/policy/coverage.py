"""Whether all artifacts that something in the settings is about were audited."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from bnaudit.policy.artifact_paths import fits, is_pattern, literal, start_of
from bnaudit.policy.place import written
from bnaudit.policy.policy import Policy
from bnaudit.results import Audit, Unaudited
from bnaudit.targets import Targets, expand


class Coverage:
    """The artifacts that were met."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._looked_at: set[Path] = set()
        self.broken = False
        """One of them could not be read."""

    def add(self, entry: Audit | Unaudited) -> None:
        """Count an artifact; a format that is not read holds nothing that a pattern could fit."""
        if isinstance(entry, Unaudited) and entry.error:
            self.broken = True
        else:
            self._looked_at.add(_real(Path(entry.artifact.path if isinstance(entry, Audit) else entry.path)))

    def of_pattern(self, pattern: str, root: Path) -> bool:
        """Whether every model below `root` that fits the pattern was looked at."""
        pattern = literal(pattern) or pattern
        if not is_pattern(pattern) and not (root / pattern).is_dir():
            return _real(root / pattern) in self._looked_at
        start = Path(written(start_of(pattern, root)))
        return self._all(self._expand([start]), lambda path: fits(path, pattern, root)) if start.exists() else True

    @cached_property
    def of_policy(self) -> bool:
        """Whether all that the settings name was looked at; what they do not name is what was given."""
        if not self._policy.paths:
            return True
        return self._all(self._expand(self._policy.paths), lambda path: not self._policy.excludes(path))

    def _expand(self, paths: Iterable[Path]) -> Targets:
        return expand(list(paths), self._policy.settings(None).caps)

    def _all(self, targets: Targets, about: Callable[[Path], bool]) -> bool:
        # What was met in a folder and turned out to be no model is in no report.
        return all(_real(path) in self._looked_at or path in targets.unnamed for path in targets.paths if about(path))


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()
