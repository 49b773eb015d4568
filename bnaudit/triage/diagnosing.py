"""From what was given to the diagnosis: search, coincidences, verdict, and what is left to be said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from bnaudit import __version__
from bnaudit.description import Artifact
from bnaudit.diagnosis import Conclusion, Diagnosis, Distinguishing, FamilyMatch, LogEvidence
from bnaudit.errors import BnauditError
from bnaudit.progress import Progress
from bnaudit.triage.coincidences import coinciding, partners, unseen
from bnaudit.triage.distinguishing import distinguishing
from bnaudit.triage.family_replays import FamilyReplays
from bnaudit.triage.hypotheses import generators
from bnaudit.triage.replaying import Materials, Replayer
from bnaudit.triage.residuals import Precision
from bnaudit.triage.search import Search, Searched
from bnaudit.triage.situation import Situation, replaceable
from bnaudit.triage.trials import Trial, Trials
from bnaudit.triage.verdict import Verdict, verdict
from bnaudit.triage_families import families

_OPEN = (Conclusion.NEAREST, Conclusion.NOT_EXPLAINED)
_ANSWERED = (Conclusion.EXPLAINED, Conclusion.UP_TO_PRECISION, Conclusion.NOTHING_TO_EXPLAIN)
_FOR_THE_SEARCH = 0.75
"""Of the budget; the rest is for causes that cannot be replayed, and for telling apart what fits."""
_MOST_FITTING = 12
"""Hypotheses of `several` that are replayed for every observation."""


class Asked(NamedTuple):
    """What a triage is about, besides the materials."""

    artifact: Artifact | None
    inputs: str
    precision: str = ""
    log: LogEvidence | None = None
    only: Collection[str] = ()
    shut_parts: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


def diagnosed(materials: Materials, asked: Asked, progress: Progress) -> Diagnosis:
    """Replay, compare, conclude. Raises as `Replayer`."""
    with np.errstate(all="ignore"):  # infinities of hypotheses that break the model are measured, not warned of
        replayer = Replayer(materials, progress)
        situation = _situation(replayer, asked)
        precision = Precision.of(materials.observed, replayer.scoring.kind, asked.precision)
        trials = Trials(replayer, precision)
        search = Search(trials, situation, generators(asked.only))
        replayer.share = _FOR_THE_SEARCH
        searched = search.run()
        replayer.share = 1.0
        found = _on_all(trials, verdict(trials, searched.singles_done), searched)
        sets = coinciding(trials, search.standing.singles)
        judged, left = _families(replayer, situation, precision, asked, found, searched)
        return _diagnosis(trials, found, searched, sets, judged, left, asked)


def _situation(replayer: Replayer, asked: Asked) -> Situation:
    materials = replayer.materials
    faults = tuple(fault for name, fault in materials.faults.items() if replayer.fits_inputs(name))
    return Situation(
        layers=replaceable(materials.session.part.layers),
        inputs=replayer.inputs,
        rows=materials.observed.rows,
        requests=materials.observed.requests,
        has_companions=materials.companions is not None,
        parts=tuple(materials.parts),
        faults=faults,
        precision=asked.precision,
        fixed_batch=materials.session.fixed_batch,
        shut_parts=asked.shut_parts,
    )


def _on_all(trials: Trials, found: Verdict, searched: Searched) -> Verdict:
    """The verdict after what fits was replayed for every observation, not only for those that were searched on."""
    count = len(trials.seen)
    if len(trials.wide) == count or not found.explanations or searched.interrupted:
        return found
    try:
        for trial in found.explanations[:_MOST_FITTING]:
            trials.trial(trial.hypothesis, trial.parts, range(count))
    except BnauditError as error:
        reason = f"{found.reason}, on {len(trials.wide)} of {count} observations: {error}"
        return found._replace(conclusion=Conclusion.NEAREST, reason=reason)
    return verdict(trials, searched.singles_done)


def _families(
    replayer: Replayer,
    situation: Situation,
    precision: Precision,
    asked: Asked,
    found: Verdict,
    searched: Searched,
) -> tuple[tuple[FamilyMatch, ...], tuple[tuple[str, str], ...]]:
    """Causes that cannot be replayed are judged where nothing that can be fits."""
    if found.conclusion not in _OPEN or searched.interrupted:
        return (), ()
    try:
        return families(FamilyReplays(replayer, situation, precision), asked.log)
    except BnauditError as error:
        return (), (("causes that cannot be replayed", str(error)),)


def _diagnosis(
    trials: Trials,
    found: Verdict,
    searched: Searched,
    sets: Sequence[Sequence[Trial]],
    judged: tuple[FamilyMatch, ...],
    left: tuple[tuple[str, str], ...],
    asked: Asked,
) -> Diagnosis:
    replayer, best = trials.replayer, trials.best()
    same = partners(trials, best, [*found.explanations[:_MOST_FITTING]], found.precision)
    conclusion, reason = found.conclusion, found.reason
    consistent = [match for match in judged if match.consistent]
    if conclusion is Conclusion.NOT_EXPLAINED and consistent:
        conclusion, reason = Conclusion.CONSISTENT, f"{consistent[0].claim}: {consistent[0].signature}"
    to_tell = _to_tell_apart(trials, found, searched)
    return Diagnosis(
        version=__version__,
        artifact=asked.artifact,
        observed=replayer.observed.source,
        conclusion=conclusion,
        reason=reason,
        explanations=tuple(trials.tried(t, same.get(t.hypothesis.key, ())) for t in found.explanations),
        tried=tuple(trials.tried(t, same.get(t.hypothesis.key, ())) for t in best),
        unseen=_unseen(trials, best, found),
        coinciding=tuple(tuple(trial.hypothesis.claim for trial in group) for group in sets),
        families=judged,
        log=asked.log,
        distinguishing=to_tell,
        untried=(*searched.untried, *left),
        precision=found.precision,
        margin=found.margin,
        inputs=asked.inputs,
        runner=replayer.materials.session.runner,
        forwards=replayer.forwards,
        seconds=replayer.seconds,
        remarks=_remarks(trials, asked),
        interrupted=searched.interrupted,
    )


def _unseen(trials: Trials, best: Sequence[Trial], found: Verdict) -> tuple[str, ...]:
    """Of one explanation: what else may have been, and would not show."""
    if found.conclusion not in _ANSWERED or len(found.explanations) != 1:
        return ()
    return unseen(trials, best, found.explanations[0], found.precision)


def _to_tell_apart(trials: Trials, found: Verdict, searched: Searched) -> Distinguishing | None:
    if found.conclusion is not Conclusion.SEVERAL or searched.interrupted:
        return None
    hypotheses = [trial.hypothesis for trial in found.explanations]
    return distinguishing(trials, hypotheses, trials.replayer.materials.seed)


def _remarks(trials: Trials, asked: Asked) -> tuple[str, ...]:
    count, scoring = len(trials.seen), trials.replayer.scoring
    said = [*trials.replayer.observed.remarks, *asked.remarks, *scoring.remarks]
    inputs = trials.replayer.inputs
    if count < inputs and np.array_equal(trials.replayer.observed.rows, np.arange(count)):
        said.append(f"the scores are taken for those of the first {count} of {inputs} inputs: `input` says otherwise")
    if len(trials.wide) < count:
        said.append(f"hypotheses were compared on {len(trials.wide)} of {count} observations, what fits on all of them")
    return tuple(dict.fromkeys([*said, *trials.replayer.materials.session.remarks]))
