"""Dropout, or its kind, that dropped in production."""

from __future__ import annotations

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.likeness.form import comparable
from bnaudit.likeness.gates import ruled_out, spoken_for
from bnaudit.triage_families import Family, Replays
from bnaudit.variation import Variation

_DRAWS = 20
_FEWEST = 12
"""Observations; of fewer, anything may be a draw."""
_SEED = 4321
_CLAIM = "dropout was in training mode"
_NEEDS = "one input sent twice alone, to see its scores differ; the draws themselves cannot be repeated"


def judge(replays: Replays, log: LogEvidence | None) -> FamilyMatch | None:
    """Draw what dropout makes of the given inputs."""
    if not replays.drops:
        return None
    excluded = ruled_out("randomness", log)
    if excluded or replays.is_labels or len(replays.rows) < _FEWEST:
        said = spoken_for("randomness", log)
        why = excluded or said or "there are too few scores to tell a draw from anything else"
        return _match(float("nan"), why, bool(said) and not excluded)
    import numpy as np

    from bnaudit.likeness.rowwise import likeness

    draws = np.stack([replays.scores(Variation(drops=True), seed=_SEED + 1000 * i) for i in range(_DRAWS)])
    shown = (
        comparable(each, replays.is_probabilities, replays.floor)
        for each in (replays.observed, draws, replays.as_saved)
    )
    found = likeness(*shown)
    if not found.fits:
        return _match(found.inside, f"but {found.misfit}", False)
    seen = ["the scores are one more draw: in distance, shape and direction alike"]
    return _match(found.inside, "; ".join([*filter(None, [spoken_for("randomness", log)]), *seen]), True)


def _match(inside: float, signature: str, consistent: bool) -> FamilyMatch:
    return FamilyMatch(
        name="dropout", claim=_CLAIM, inside=inside, signature=signature, consistent=consistent, needs=_NEEDS
    )


FAMILY = Family("dropout", judge)
