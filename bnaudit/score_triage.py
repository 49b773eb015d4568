"""The use case of `bnaudit triage`: a file of observed scores, alone or with the model that should have made them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bnaudit.call_options import with_options
from bnaudit.diagnosis import Conclusion, Diagnosis, LogEvidence, ScoreKind
from bnaudit.errors import UsageError
from bnaudit.observed import RequestLog, for_inputs, read_log
from bnaudit.progress import Progress
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


def diagnose(
    observed: str | Path | RequestLog,
    subject: object = None,
    options: RunOptions | None = None,
    *,
    kind: ScoreKind | str | None = None,
    companions: object = None,
    precision: str = "",
    settings: Settings | None = None,
    progress: Progress | None = None,
    **named: Any,
) -> Diagnosis:
    """Why production's scores differ.

    observed: what production returned, a file (.npz, .npy, .csv, .jsonl) with one row for each observation, or a log
    that was read. subject: the path of the artifact, or a live model; with it, or with a model in the options, every
    hypothesis is replayed on the inputs, otherwise the log alone is looked at. kind: of the scores, `logits`,
    `probabilities`, `labels` or `embeddings`; None: found from the values. companions, precision: see
    `bnaudit.triaging.triage`. `named` are fields of RunOptions and Settings by name, as of `audit`:
    `diagnose("scores.csv", "trained.pt", model="net.py:build", inputs="x.npz")`.

    Raises UsageError and UnreadableError for what cannot be read or does not fit together, TypeError for an unknown
    option, and what a run raises.
    """
    from bnaudit.request_log import evidence

    settings = _settings(settings or Settings(), options, named)
    path, settings = _subject(subject, settings)
    log = observed if isinstance(observed, RequestLog) else read_log(_file(observed), _kind(kind))
    shown = evidence(log, precision or None)
    if path is None and settings.run.model is None:
        return of_log_alone(log, shown)
    from bnaudit.triaging import triage

    return triage(
        path,
        for_inputs(log).observed,
        settings.run,
        companions=companions,
        precision=precision,
        log=shown if shown.repeated else None,
        settings=settings,
        progress=progress,
    )


def _settings(settings: Settings, options: RunOptions | None, named: dict[str, Any]) -> Settings:
    if options is not None and not isinstance(options, RunOptions):
        kind = type(options).__name__
        raise UsageError(f"options cannot be a {kind}", remedy="give them by name, diagnose(scores, path, inputs=…)")
    return with_options(settings if options is None else replace(settings, run=options), named, "diagnose")


def _subject(subject: object, settings: Settings) -> tuple[Path | None, Settings]:
    """The path, or none and the settings with the live model in them."""
    from bnaudit.auditing import is_model

    if subject is None:
        return None, settings
    if isinstance(subject, (str, os.PathLike)):
        return Path(subject).expanduser(), settings
    if not is_model(subject):
        what = f"an object of class {type(subject).__name__} is neither a model nor the path of one"
        raise UsageError(what, remedy="give a module, or the file that it was saved to")
    return None, with_options(settings, {"model": subject}, "diagnose")


def _file(observed: object) -> str | Path:
    if not isinstance(observed, (str, Path)):
        what = f"an object of class {type(observed).__name__} is no file of observed scores"
        raise UsageError(what, remedy="save the scores, numpy.savez('scores.npz', logits=…), and give its path")
    return observed


def _kind(kind: ScoreKind | str | None) -> ScoreKind | None:
    if kind is None or isinstance(kind, ScoreKind):
        return kind
    known = [each.value for each in ScoreKind]
    if kind not in known:
        raise UsageError(f"no scores are called {kind!r}", remedy=f"there are {', '.join(known)}")
    return ScoreKind(kind)


def of_log_alone(log: RequestLog, shown: LogEvidence) -> Diagnosis:
    """What can be said without a model."""
    from bnaudit import __version__

    proved = bool(shown.points_to)
    return Diagnosis(
        version=__version__,
        artifact=None,
        observed=log.observed.source,
        conclusion=Conclusion.PROVED_BY_LOG if proved else Conclusion.NOT_EXPLAINED,
        reason=shown.reasons[0],
        log=shown,
        remarks=log.observed.remarks,
    )
