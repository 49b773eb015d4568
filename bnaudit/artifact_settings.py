"""The settings of each artifact, with what a baseline accepts in it."""

from __future__ import annotations

from pathlib import Path

from bnaudit.policy import EntriesByPath, Policy
from bnaudit.records import replace
from bnaudit.results import Acceptance
from bnaudit.settings import Settings


class ArtifactSettings:
    """The settings of each artifact with what the baseline accepts in it; the same object where it is the same."""

    def __init__(self, policy: Policy, accepted: tuple[Acceptance, ...]) -> None:
        self._policy = policy
        self._accepted = EntriesByPath(accepted)
        self._made: dict[int, tuple[Settings, Settings]] = {}

    def __call__(self, path: Path | None) -> Settings:
        settings = self._policy.settings(path)
        place = path if path is not None else _code_of(settings)
        accept = (*settings.accept, *self._accepted.of_patterns)
        if place is not None and (own := self._accepted.of(place)):
            return replace(settings, accept=(*accept, *own))
        if id(settings) not in self._made:
            # The first is kept alive, so that its id stays its own.
            self._made[id(settings)] = (settings, replace(settings, accept=accept))
        return self._made[id(settings)][1]


def _code_of(settings: Settings) -> Path | None:
    """What a baseline calls a live model by: its code, as it is written."""
    return Path(settings.run.model) if isinstance(settings.run.model, str) else None
