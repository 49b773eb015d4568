"""Two artifacts, or two parts of one, held against each other."""

from __future__ import annotations

from collections.abc import Sequence

from bnaudit.comparing.outputs import outputs_of
from bnaudit.comparing.parts import best_choice, chosen_of, parts_of
from bnaudit.comparing.shown import Shown
from bnaudit.comparing.sides import Side
from bnaudit.comparing.weights import weights_of
from bnaudit.comparison import Comparison
from bnaudit.description import Gap, Part
from bnaudit.errors import UsageError
from bnaudit.progress import Progress
from bnaudit.records import replace
from bnaudit.settings import Settings


def two_artifacts(baseline: Side, subject: Side, settings: Settings, progress: Progress) -> Shown:
    """Choose the parts, pair their layers, recompute folds, and run both where that was asked for.

    Raises UsageError where both are one and the same.
    """
    choice = best_choice(*_candidates(baseline, subject))
    outputs = outputs_of(baseline, subject, choice, settings.run, progress)
    weights = weights_of(baseline, subject, choice, settings.caps)
    comparison = Comparison(
        baseline=replace(baseline.description, parts=(choice.baseline,)),
        subject_part=choice.subject,
        baseline_part=choice.baseline,
        matching=choice.matching,
        moves=choice.moves,
        folds=weights.folds,
        reshaped=weights.reshaped,
        run=outputs.run,
        not_run=outputs.not_run,
        run_needs=outputs.needs,
        remarks=(
            *chosen_of(baseline.description, choice.baseline, baseline.parts),
            *chosen_of(subject.description, choice.subject, subject.parts),
            *weights.remarks,
        ),
    )
    description = replace(subject.description, parts=(choice.subject,))
    return Shown(description, comparison, (*_gaps(baseline, subject), *description.gaps), outputs.failed)


def _candidates(baseline: Side, subject: Side) -> tuple[Sequence[Part], Sequence[Part]]:
    """The parts of the subject and of the baseline to choose from; of one file never the same one twice.

    Raises UsageError where nothing is left to compare with.
    """
    ours, theirs = subject.parts, baseline.parts
    if not baseline.is_same_file(subject):
        return ours, theirs
    if baseline.part is not None:
        ours = [part for part in ours if part.name != baseline.part]
    elif subject.part is not None:
        theirs = [part for part in theirs if part.name != subject.part]
    if not ours or not theirs or baseline.part is subject.part is None:
        named = [f"{baseline.name}#{part.name}" for part in parts_of(baseline.description) if part.name]
        parts = f"two files, or two parts, {named[0]} and {named[1]}" if len(named) > 1 else "two files"
        raise UsageError(f"{baseline.name} is compared with itself", remedy=f"give {parts}")
    return ours, theirs


def _gaps(baseline: Side, subject: Side) -> list[Gap]:
    """What could not be read of the baseline, said with its name: the report is on the subject."""
    if baseline.is_same_file(subject):
        return []
    return [replace(gap, where=f"{gap.where} of {baseline.name}") for gap in baseline.description.gaps]
