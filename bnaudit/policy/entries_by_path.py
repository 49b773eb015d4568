"""Accepted findings by the artifact that they are about: trying thousands of entries on each of thousands of files
would take longer than the audits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bnaudit.policy.artifact_paths import literal
from bnaudit.results import Acceptance


class EntriesByPath:
    """Entries of one path, as most of a baseline are, and those of a pattern, which may be about any artifact."""

    def __init__(self, entries: Iterable[Acceptance]) -> None:
        self.of_patterns: list[Acceptance] = []
        self._of_path: dict[Path, list[Acceptance]] = {}
        for each in entries:
            path = literal(each.artifact)
            if path is None:
                self.of_patterns.append(each)
                continue
            for root in dict.fromkeys((each.root, os.path.realpath(each.root))):
                place = Path(os.path.normpath(Path(root, path)))  # `--baseline ../b.json` has a root with `..`
                self._of_path.setdefault(place, []).append(each)

    def of(self, path: Path) -> list[Acceptance]:
        """Those of the file, and of folders that it is in, by the names that they have and by those of what they link
        to; none of a pattern.
        """
        if not self._of_path:
            return []
        named, real = Path(os.path.normpath(path.absolute())), Path(os.path.realpath(path))
        places = dict.fromkeys((named, *named.parents, real, *real.parents))
        found = (each for place in places for each in self._of_path.get(place, ()))
        return list({id(each): each for each in found}.values())
