"""Served statistics that are many updates ahead of the saved ones: another moment of training, or of serving."""

from __future__ import annotations

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.likeness.updates import judged
from bnaudit.triage_families import Family, Replays

_UPDATES = [(count, size) for count in (10, 30, 100) for size in (16, 32) for _ in range(3)]
_SEED = 9000
_TEMPLATE = FamilyMatch(
    name="more-updates",
    claim="the running statistics were updated many more times than in the saved state",
    inside=0.0,
    signature="",
    consistent=False,
    needs="the served state itself, saved where it is served, for `bnaudit compare`",
)


def judge(replays: Replays, log: LogEvidence | None) -> FamilyMatch | None:
    """Move the statistics far towards those of the given inputs."""
    if not replays.norms:
        return None
    return judged(replays, log, _TEMPLATE, "", _UPDATES, _SEED)


FAMILY = Family("more-updates", judge, rank=0)
