"""What a run proves about one norm layer, for rules that read files and leave it open."""

from __future__ import annotations

from bnaudit.measurement import EvalNorm, Measured, Swap
from bnaudit.results import Outcome, Question


def neighbours_passed(measured: Measured) -> bool:
    """Whether companions were exchanged and proved not to matter; an exact swap alone may prove nothing."""
    answer = measured.answers.get(Question.NEIGHBOURS)
    return answer is not None and answer.outcome is Outcome.PASSED


def mixes_samples(measured: Measured | None, part: str, layer: str) -> bool | None:
    """Whether samples meet in this norm layer of this part; None: not run, or not found out."""
    if measured is None or measured.part != part:
        return None
    shown = [norm.mixes for norm in measured.of(EvalNorm) if norm.layer == layer]
    if True in shown or any(place.layer == layer for swap in measured.of(Swap) for place in swap.mixing):
        return True
    return False if False in shown or neighbours_passed(measured) else None
