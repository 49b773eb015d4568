"""The use case: read an artifact, apply the rules, draw the conclusions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bnaudit import __version__, plugins
from bnaudit.description import Artifact, Description
from bnaudit.errors import BnauditError, NotAModelError, NotAuditedError
from bnaudit.formats import Candidate, identify
from bnaudit.layer_names import strip_wrappers
from bnaudit.ledger import ledger
from bnaudit.reading.byte_source import ByteSource
from bnaudit.results import Audit, Failed, Finding, Hit, Report, Severity, Skipped, Unaudited
from bnaudit.rules import Case, Rule, load_rule, rule_id
from bnaudit.settings import Settings, check_selectors
from bnaudit.targets import expand
from bnaudit.verdicts import verdicts

Progress = Callable[[Path, int, int], None]
"""Called before each artifact with its path, its position from 0, and how many there are."""


def describe(path: str | Path, settings: Settings | None = None) -> Description:
    """What the file or model folder says of its norm layers. Nothing in it is executed.

    Raises UnreadableError (or a subclass) when it is no model or broken, NotAuditedError for a known format
    that is not read.
    """
    path = Path(path)
    caps = (settings or Settings()).caps
    if path.is_dir():
        candidate = Candidate(path, None, caps)
        return identify(candidate).read(candidate)
    with ByteSource.open(path, caps) as source:
        candidate = Candidate(path, source)
        return identify(candidate).read(candidate)


def audit(
    paths: str | Path | Iterable[str | Path], settings: Settings | None = None, progress: Progress | None = None
) -> Report:
    """Audit files, folders and patterns. A broken file is an entry of the report and stops nothing.

    Raises UsageError when the settings name a rule that does not exist.
    """
    settings = settings or Settings()
    selected, unselected = _choose(settings)
    targets = expand([paths] if isinstance(paths, (str, Path)) else paths, settings.caps)
    audits: list[Audit] = []
    unaudited = list(targets.missing)
    other_files = targets.other_files
    for position, path in enumerate(targets.paths):
        if progress is not None:
            progress(path, position, len(targets.paths))
        result = _described(path, settings)
        if isinstance(result, Description):
            audits.append(conclude(result, settings, selected, unselected))
        elif result.no_model and path in targets.unnamed:
            other_files += 1  # a pickle or an archive met in a folder, with no tensor in it
        else:
            unaudited.append(result.entry)
    return Report(
        version=__version__,
        audits=tuple(audits),
        unaudited=tuple(unaudited),
        other_files=other_files,
        rules=MappingProxyType({rule.id: rule.name for rule in selected}),
    )


class _Unread(NamedTuple):
    entry: Unaudited
    no_model: bool = False


def _described(path: Path, settings: Settings) -> Description | _Unread:
    try:
        return describe(path, settings)
    except NotAuditedError as error:
        return _Unread(Unaudited(path=str(path), why=str(error), error=False))
    except BnauditError as error:
        return _Unread(Unaudited(path=str(path), why=str(error), error=True), isinstance(error, NotAModelError))
    except Exception as error:
        why = f"internal failure while reading ({_where(error)}): please report it with the file's origin"
        return _Unread(Unaudited(path=str(path), why=why, error=True))


def _choose(settings: Settings) -> tuple[list[Rule], list[Rule]]:
    """The selected rules and the others; the others are looked at only for the verdicts they would decide."""
    files = plugins.names("bnaudit.rules")
    ids = [rule_id(name) for name in files]
    check_selectors((*settings.select, *settings.ignore), ids)
    loaded = [load_rule(name) for name in files]
    return [r for r in loaded if settings.selects(r.id)], [r for r in loaded if not settings.selects(r.id)]


def conclude(
    description: Description, settings: Settings, selected: Sequence[Rule], unselected: Sequence[Rule] = ()
) -> Audit:
    """Apply the rules to one description.

    The verdicts are about the whole artifact, also when only some layers are to be shown.
    """
    findings, skipped, failed = _apply(description, settings, selected, unselected)
    return Audit(
        artifact=description.artifact,
        description=description,
        verdicts=verdicts(description, findings, [(rule.id, rule.question) for rule in unselected]),
        ledger=ledger(description.parts, settings.covers, settings.all_layers),
        findings=tuple(finding for finding in findings if settings.covers(finding.layer)),
        skipped=tuple(skipped),
        failed=tuple(failed),
        gaps=description.gaps,
    )


def _apply(
    description: Description, settings: Settings, selected: Sequence[Rule], unselected: Sequence[Rule]
) -> tuple[list[Finding], list[Skipped], list[Failed]]:
    hits: dict[str, list[Hit]] = {}
    skipped: list[Skipped] = []
    failed: list[Failed] = []
    # A rule that was not asked for still silences the less specific ones that yield to it.
    wanted = {id for rule in selected for id in rule.yields_to}
    for rule in (*selected, *(other for other in unselected if other.id in wanted)):
        if rule.needs:
            skipped.append(Skipped(rule=rule.id, name=rule.name, needs=", ".join(rule.needs)))
            continue
        limits = MappingProxyType({**rule.limits, **settings.limits.get(rule.id, {})})
        try:
            hits[rule.id] = list(rule.check(Case(description, limits)))
        except Exception as error:
            failed.append(Failed(rule=rule.id, name=rule.name, error=_where(error)))
    places = {id: {(hit.part, hit.layer) for hit in found} for id, found in hits.items()}
    findings = [
        _finding(rule, hit, description.artifact, settings)
        for rule in selected
        for hit in hits.get(rule.id, ())
        if not _taken(hit, rule, places)
    ]
    return sorted(findings, key=lambda f: (-f.severity, f.rule)), skipped, failed


def _taken(hit: Hit, rule: Rule, places: dict[str, set[tuple[str, str | None]]]) -> bool:
    place = (hit.part, hit.layer)
    return hit.layer is not None and any(place in places.get(id, ()) for id in rule.yields_to)


def _finding(rule: Rule, hit: Hit, artifact: Artifact, settings: Settings) -> Finding:
    severity = settings.cap(hit.severity or rule.severity, hit.confidence)
    fails = hit.settles if hit.settles is not None else severity >= Severity.WARNING and not hit.undecided
    intended = settings.intends(rule.id, hit.layer)
    if intended:
        severity, fails = Severity.NOTE, False
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=severity,
        confidence=hit.confidence,
        artifact=artifact.path,
        part=hit.part,
        layer=hit.layer,
        message=hit.message,
        value=hit.value,
        limit=hit.limit,
        advice=hit.advice,
        channels=hit.channels,
        question=rule.question,
        fails=fails,
        undecided="" if intended else hit.undecided,
        intended=intended,
        fingerprint=_fingerprint(rule.id, hit),
    )


def _fingerprint(rule: str, hit: Hit) -> str:
    """Made of what survives retraining: never of numbers. Findings on a whole artifact differ by what they name."""
    from hashlib import sha256

    if hit.layer is not None:
        place = f"layer {strip_wrappers(hit.layer)}"
    else:
        place = f"artifact {hit.value}" if isinstance(hit.value, str) else "artifact"
    return sha256(f"{rule}\0{hit.part}\0{place}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}: {error}{place}"
