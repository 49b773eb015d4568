"""The use case: replay what production may have done, and say which account reproduces the observed scores."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from bnaudit.auditing import describe
from bnaudit.description import Artifact, Description
from bnaudit.diagnosis import Diagnosis, LogEvidence, Observed
from bnaudit.errors import BnauditError, UsageError
from bnaudit.measuring import choose, live_description, opened
from bnaudit.progress import Progress, Silent
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

if TYPE_CHECKING:
    from bnaudit.feeds.given import Given
    from bnaudit.session import Session
    from bnaudit.triage.replaying import Materials

PATIENCE = 120.0
"""Seconds after which no further replay begins when no budget is given."""
Normalizations = Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]


def triage(
    path: Path | None,
    observed: Observed,
    options: RunOptions,
    *,
    companions: object = None,
    precision: str = "",
    log: LogEvidence | None = None,
    only: Collection[str] = (),
    normalizations: Normalizations = MappingProxyType({}),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Which account of what happened reproduces the scores that production returned.

    path: the artifact; None: the model of the options. `options.inputs`: the inputs that were scored, in their order.
    companions: inputs that stood beside each in production's batches, as `options.inputs`, or one array (inputs,
    companions of each, …). precision: of production's arithmetic, `fp32`, `tf32`, `fp16`, `bf16`; "": float32.
    log: what the request log alone shows. only: names of generators of hypotheses; empty: all. normalizations: name →
    (means, deviations) per channel, besides ImageNet's and the like.

    Raises UsageError for an option that names what does not exist, UnreadableError for inputs or scores that do not
    fit, NotPossibleError and RunError when the model cannot be run.
    """
    from bnaudit.triage.diagnosing import Asked, diagnosed

    _check(options, precision, only)
    description = None if path is None else describe(path, settings)
    options = replace(options, budget=PATIENCE if options.budget is None else options.budget)
    chosen = choose(path, description, options)
    with opened(chosen) as session, ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's loader, and of frameworks that read files
        materials, given = _materials(session, observed, options, companions, normalizations)
        parts, shut = _other_parts(stack, path, description, session, options)
        asked = Asked(
            artifact=_artifact(description, session, options),
            inputs=f"{given.name}, {given.pool.size} samples",
            precision=precision,
            log=log,
            only=only,
            shut_parts=shut,
            remarks=given.remarks,
        )
        return diagnosed(replace(materials, parts=MappingProxyType(parts)), asked, progress or Silent())


def _materials(
    session: Session, observed: Observed, options: RunOptions, companions: object, normalizations: Normalizations
) -> tuple[Materials, Given]:
    from bnaudit.feeds.in_order import open_in_order
    from bnaudit.triage.companions import open_companions
    from bnaudit.triage.input_faults import NORMALIZATIONS, input_faults
    from bnaudit.triage.replaying import Materials

    given = open_in_order(session, options)
    beside = None if companions is None else open_companions(session, options, companions, given.pool)
    faults = {fault.name: fault for fault in input_faults({**NORMALIZATIONS, **normalizations})}
    materials = Materials(
        session=session,
        pool=given.pool,
        observed=observed,
        companions=beside,
        faults=MappingProxyType(faults),
        batch_size=options.batch_size,
        budget=options.budget,
        seed=options.seed,
    )
    return materials, given


def _artifact(description: Description | None, session: Session, options: RunOptions) -> Artifact | None:
    if description is None:
        return live_description(session, options.model).artifact
    return description.artifact


def _check(options: RunOptions, precision: str, only: Collection[str]) -> None:
    from bnaudit.triage.hypotheses import generators
    from bnaudit.triage.residuals import PRECISIONS

    if precision not in PRECISIONS:
        known = ", ".join(name for name in PRECISIONS if name)
        raise UsageError(f"there is no precision {precision}", where="--precision", remedy=f"give one of {known}")
    if options.inputs is None:
        raise UsageError("the inputs that were scored are missing", where="triage", remedy="give them: --inputs")
    unknown = sorted(set(only) - {generator.name for generator in generators()})
    if unknown:
        names = ", ".join(generator.name for generator in generators())
        raise UsageError(f"there are no hypotheses {unknown[0]}", where="only", remedy=f"give some of {names}")


@contextmanager
def _part(path: Path, description: Description, options: RunOptions, part: str) -> Iterator[Session]:
    with opened(choose(path, description, replace(options, part=part))) as session:
        yield session


def _other_parts(
    stack: ExitStack, path: Path | None, description: Description | None, session: Session, options: RunOptions
) -> tuple[dict[str, Session], tuple[tuple[str, str], ...]]:
    """Sessions of the checkpoint's other parts with the same norm layers, and those that cannot be opened."""
    found: dict[str, Session] = {}
    shut: list[tuple[str, str]] = []
    if path is None or description is None or session.loaded is None:
        return found, ()
    own = len(session.part.layers)
    others = [part for part in description.parts if part.name != session.part.name and len(part.layers) == own]
    for part in others:
        if not isinstance(options.model, str) and not _is_factory(options.model):
            shut.append((part.name, "a factory of the model: a live one holds one part at a time"))
            continue
        try:
            found[part.name] = stack.enter_context(_part(path, description, options, part.name))
        except BnauditError as error:
            shut.append((part.name, str(error)))
    return found, tuple(shut)


def _is_factory(model: object) -> bool:
    return callable(model) and not hasattr(model, "state_dict")
