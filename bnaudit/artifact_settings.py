"""The settings of each artifact, with what a baseline accepts in it."""

from __future__ import annotations

import os
import re
from glob import escape
from pathlib import Path

from bnaudit.policy import Policy
from bnaudit.records import replace
from bnaudit.results import Acceptance
from bnaudit.settings import Settings


class ArtifactSettings:
    """The settings of each artifact with what the baseline accepts in it; the same object where it is the same.

    Most entries of a baseline name one file. They are found by its path: trying thousands of entries on each of
    thousands of files would take longer than the audits.
    """

    def __init__(self, policy: Policy, accepted: tuple[Acceptance, ...]) -> None:
        self._policy = policy
        self._everywhere: list[Acceptance] = []
        self._of_path: dict[Path, list[Acceptance]] = {}
        for each in accepted:
            literal = re.sub(r"\[([*?[])\]", r"\1", each.artifact)
            if escape(literal) == each.artifact:
                for root in dict.fromkeys((each.root, os.path.realpath(each.root))):
                    place = Path(os.path.normpath(Path(root, literal)))  # `--baseline ../b.json` has a root with `..`
                    self._of_path.setdefault(place, []).append(each)
            else:
                self._everywhere.append(each)
        self._made: dict[int, tuple[Settings, Settings]] = {}

    def __call__(self, path: Path | None) -> Settings:
        settings = self._policy.settings(path)
        own = self._own(path if path is not None else _code_of(settings))
        if own:
            return replace(settings, accept=(*settings.accept, *self._everywhere, *own))
        if id(settings) not in self._made:
            every = replace(settings, accept=(*settings.accept, *self._everywhere))
            self._made[id(settings)] = (settings, every)  # the first is kept alive, so that its id stays its own
        return self._made[id(settings)][1]

    def _own(self, path: Path | None) -> list[Acceptance]:
        """Of the file, and of folders that it is in, by the names that they have and by those of what they link to."""
        if not self._of_path or path is None:
            return []
        named, real = Path(os.path.normpath(path.absolute())), Path(os.path.realpath(path))
        places = dict.fromkeys((named, *named.parents, real, *real.parents))
        found = (each for place in places for each in self._of_path.get(place, ()))
        return list({id(each): each for each in found}.values())


def _code_of(settings: Settings) -> Path | None:
    """What a baseline calls a live model by: its code, as it is written."""
    return Path(settings.run.model) if isinstance(settings.run.model, str) else None
