"""Some forwards in training mode before, whose inputs were not logged: the served statistics are not the saved ones."""

from __future__ import annotations

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.likeness.updates import judged
from bnaudit.triage_families import Family, Replays

_UPDATES = [(count, size) for count in (1, 2, 4, 8) for size in (4, 16) for _ in range(3)]
_SEED = 7000
_TEMPLATE = FamilyMatch(
    name="stray-batches",
    claim="a few forwards in training mode came before, and moved the running statistics",
    inside=0.0,
    signature="",
    consistent=False,
    needs="the inputs of every forward since loading, in their order, or the served state for `bnaudit compare`",
)


def judge(replays: Replays, log: LogEvidence | None) -> FamilyMatch | None:
    """Move the statistics by a few batches of the given inputs."""
    if not replays.norms:
        return None
    return judged(replays, log, _TEMPLATE, "history", _UPDATES, _SEED)


FAMILY = Family("stray-batches", judge, rank=0)
