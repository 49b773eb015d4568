"""The use case of `bnaudit triage`: a file of observed scores, alone or with the model that should have made them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.diagnosis import Conclusion, Diagnosis, LogEvidence, ScoreKind
from bnaudit.observed import RequestLog, for_inputs, read_log
from bnaudit.progress import Progress
from bnaudit.run_options import RunOptions

if TYPE_CHECKING:
    from bnaudit.settings import Settings


def diagnose(
    observed: str | Path | RequestLog,
    path: str | Path | None = None,
    options: RunOptions | None = None,
    *,
    kind: ScoreKind | None = None,
    companions: object = None,
    precision: str = "",
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Why production's scores differ.

    observed: what production returned, a file or a log that was read. path: the artifact; with it, or with a model in
    the options, every hypothesis is replayed on `options.inputs`, otherwise the log alone is looked at. kind: of the
    scores; None: found from the values. companions, precision: see `bnaudit.triaging.triage`.

    Raises UsageError and UnreadableError for what cannot be read or does not fit together, and what a run raises.
    """
    from bnaudit.request_log import evidence

    log = observed if isinstance(observed, RequestLog) else read_log(observed, kind)
    shown = evidence(log, precision or None)
    if path is None and (options is None or options.model is None):
        return of_log_alone(log, shown)
    from bnaudit.triaging import triage

    return triage(
        None if path is None else Path(path).expanduser(),
        for_inputs(log).observed,
        options or RunOptions(),
        companions=companions,
        precision=precision,
        log=shown if shown.repeated else None,
        settings=settings,
        progress=progress,
    )


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
