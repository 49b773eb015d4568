"""Whether all artifacts that something in the settings is about were audited."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from bnaudit.policy.artifact_paths import fits, is_pattern, start_of
from bnaudit.policy.place import written
from bnaudit.policy.policy import Policy
from bnaudit.results import Report
from bnaudit.targets import Targets, expand

_ESCAPED = re.compile(r"\[([*?[])\]")


class Coverage:
    """The artifacts of one report."""

    def __init__(self, policy: Policy, report: Report) -> None:
        self._policy = policy
        looked_at = [audit.artifact.path for audit in report.audits]
        looked_at += [entry.path for entry in report.unaudited if not entry.error]
        self._looked_at = {_real(Path(path)) for path in looked_at}
        self.broken = any(entry.error for entry in report.unaudited)

    def of_pattern(self, pattern: str, root: Path) -> bool:
        """Whether every model below `root` that fits the pattern was looked at."""
        pattern = unescaped(pattern)
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


def unescaped(pattern: str) -> str:
    """The path itself, where a pattern stands for one path with special characters in it."""
    plain = _ESCAPED.sub("", pattern)
    return pattern if is_pattern(plain) else _ESCAPED.sub(r"\1", pattern)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()
