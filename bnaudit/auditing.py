"""The use case: read an artifact, measure what the selected rules need, apply the rules, draw the conclusions."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bnaudit import __version__
from bnaudit.call_options import with_options
from bnaudit.description import Artifact, Description
from bnaudit.errors import BnauditError, NotAModelError, NotAuditedError, UnreadableError, UsageError, where_raised
from bnaudit.formats import Candidate, identify
from bnaudit.layer_names import strip_wrappers
from bnaudit.ledger import ledger
from bnaudit.measuring import Run, run
from bnaudit.progress import Progress, Silent
from bnaudit.reading.byte_source import ByteSource
from bnaudit.records import replace
from bnaudit.results import Audit, Failed, Finding, Hit, Question, Report, Severity, Skipped, Unaudited
from bnaudit.rules import Case, Rule, rules
from bnaudit.settings import Settings, check_selectors
from bnaudit.targets import Targets, expand
from bnaudit.verdicts import verdicts
from bnaudit.worker_pool import Piece, results

if TYPE_CHECKING:
    from bnaudit.measurement import Unmeasured


def describe(path: str | Path, settings: Settings | None = None) -> Description:
    """What the file or model folder says of its norm layers. Nothing in it is executed.

    Raises UnreadableError (or a subclass) when it is no model or broken, NotAuditedError for a known format
    that is not read.
    """
    path = Path(path)
    caps = (settings or Settings()).caps
    if os.path.isdir(path):  # noqa: PTH112 - in a folder that may not be entered, Path.is_dir raises
        candidate = Candidate(path, None, caps)
        return identify(candidate).read(candidate)
    with ByteSource.open(path, caps) as source:
        candidate = Candidate(path, source)
        return identify(candidate).read(candidate)


def audit(
    subject: object, settings: Settings | None = None, progress: Progress | None = None, **options: Any
) -> Report:
    """Audit a file, a folder, a pattern, several of them, or a live model (or a function that builds one).

    `options` are fields of RunOptions or Settings by name: `audit(net, inputs=batch, select=("BN3",))`. Without
    `subject` (None) the model of the options is audited. A broken file is an entry of the report and stops nothing.
    The user's model is left as it was, bit for bit.

    Raises UsageError when an option names what does not exist, UnreadableError when a live model can not be built,
    TypeError for an unknown option.
    """
    settings = with_options(Settings() if settings is None else settings, options)
    progress = progress or Silent()
    if subject is not None and not isinstance(subject, (str, Path)) and is_model(subject):
        subject, settings = None, with_options(settings, {"model": subject})
    if subject is None:
        return report_of(examine_live(settings, progress), settings)
    paths = _paths(subject)
    rule_names(settings)  # a rule that does not exist is told before folders are searched
    return audit_targets(expand(paths, settings.caps), lambda _: settings, progress)


def audit_targets(
    targets: Targets, settings_for: Callable[[Path], Settings], progress: Progress, jobs: int = 1
) -> Report:
    """Audit each file or folder with the settings that hold for it, in this process or in `jobs` others.

    The report is the same whatever `jobs` is. Raises UsageError for rules that do not exist.
    """
    work = [Piece(path, settings_for(path)) for path in targets.paths]
    names: dict[str, str] = {}
    for settings in {id(piece.context): piece.context for piece in work}.values():
        names.update(rule_names(settings))
    found, stopped = _collected(work, progress, jobs)
    entries = [(work[position].subject, found[position]) for position in sorted(found)]
    unaudited, other_files = list(targets.missing), targets.other_files
    for path, result in entries:
        if isinstance(result.entry, Audit):
            continue
        if result.no_model and path in targets.unnamed:
            other_files += 1  # a pickle or an archive met in a folder, with no tensor in it
        else:
            unaudited.append(result.entry)
    return Report(
        version=__version__,
        audits=tuple(result.entry for _, result in entries if isinstance(result.entry, Audit)),
        unaudited=tuple(unaudited),
        other_files=other_files,
        rules=MappingProxyType(dict(sorted(names.items()))),
        interrupted=stopped or any(result.interrupted for _, result in entries),
    )


def _collected(
    work: Sequence[Piece[Path, Settings]], progress: Progress, jobs: int
) -> tuple[dict[int, Examined], bool]:
    """What each position gave, and whether Ctrl-C came in between; before there is anything it is passed on."""
    found: dict[int, Examined] = {}
    try:
        with closing(examine_all(work, progress, jobs)) as examined:
            for position, result in examined:
                found[position] = result
                progress.finished(result.entry.exit_code)
    except KeyboardInterrupt:
        if jobs == 1 and not found:
            raise
        return found, True
    return found, False


def examine_all(
    work: Sequence[Piece[Path, Settings]], progress: Progress, jobs: int
) -> Generator[tuple[int, Examined], None, None]:
    """What each path gives, with its position, as it comes; the last one is the one that was interrupted, if any.

    A path whose process dies is an entry like a broken file. A live model is never sent to another process.
    """
    jobs = usable_jobs(jobs, [piece.context for piece in work])
    task = partial(examine, progress=progress if jobs == 1 else Silent())
    with closing(results(task, work, jobs, process_died, progress.artifact)) as examined:
        for position, result in examined:
            yield position, result
            if result.interrupted:
                return


def usable_jobs(jobs: int, settings: Sequence[Settings]) -> int:
    """How many processes may audit under these settings, one for each path: a live model stays in this one."""
    return min(jobs, len(settings)) if all(each.run.is_plain for each in settings) else 1


def process_died(path: Path, how: str) -> Examined:
    """The entry for a path whose process died; `how` says of what, and what to do."""
    return Examined(Unaudited(path=str(path), why=f"{path.name} could not be audited: {how}", error=True))


class Examined(NamedTuple):
    """What one path gave."""

    entry: Audit | Unaudited
    interrupted: bool = False
    no_model: bool = False
    """It was read far enough to say that it holds no model."""


def examine(path: Path, settings: Settings, progress: Progress) -> Examined:
    """Audit one file or model folder. A file that cannot be read is an entry, no exception.

    Raises UsageError for rules that do not exist.
    """
    rules = _choose(settings.select, settings.ignore, settings.intended)
    result = _described(path, settings)
    if not isinstance(result, Description):
        return result
    try:
        ran = run(path, result, settings.run, rules.probes, progress)
        return Examined(conclude(result, settings, rules.selected, rules.unselected, ran), ran.interrupted)
    except BnauditError:
        raise
    except Exception as error:
        return _broke(path, "auditing", error)


def examine_live(settings: Settings, progress: Progress) -> Examined:
    """Audit the live model of the settings. Raises UsageError without one, UnreadableError when it is not built."""
    if settings.run.model is None:
        raise UsageError("nothing to audit", remedy="give a file, or a model with --model")
    if settings.run.static:
        raise UsageError("a live model cannot be audited with --static", remedy="give the file of its weights")
    rules = _choose(settings.select, settings.ignore, settings.intended)
    ran = run(None, None, settings.run, rules.probes, progress)
    if ran.description is None:
        raise UnreadableError(ran.why_not)
    return Examined(conclude(ran.description, settings, rules.selected, rules.unselected, ran), ran.interrupted)


def report_of(examined: Examined, settings: Settings) -> Report:
    """The report on one artifact."""
    audits = (examined.entry,) if isinstance(examined.entry, Audit) else ()
    unaudited = (examined.entry,) if isinstance(examined.entry, Unaudited) else ()
    names = MappingProxyType(rule_names(settings))
    return Report(
        version=__version__, audits=audits, unaudited=unaudited, rules=names, interrupted=examined.interrupted
    )


def rule_names(settings: Settings) -> dict[str, str]:
    """Id → name of the rules that the settings select."""
    return {rule.id: rule.name for rule in _choose(settings.select, settings.ignore, settings.intended).selected}


def is_model(subject: object) -> bool:
    """Whether it is a live model, an exported program, or a function that builds one; told without any framework."""
    return hasattr(subject, "named_modules") or hasattr(subject, "graph_signature") or callable(subject)


def _paths(subject: object) -> Iterable[str | Path]:
    if isinstance(subject, (str, Path)):
        return [subject]
    paths = list(subject) if isinstance(subject, Iterable) and not isinstance(subject, (bytes, Mapping)) else [subject]
    wrong = next((path for path in paths if not isinstance(path, (str, os.PathLike))), None)
    if wrong is not None:
        what = f"an object of class {type(wrong).__name__} is neither a model nor the path of one"
        raise UsageError(what, remedy="give a module, or the file that it was saved to")
    return [os.fspath(cast("str | Path", path)) for path in paths]


def _described(path: Path, settings: Settings) -> Description | Examined:
    try:
        return describe(path, settings)
    except NotAuditedError as error:
        return Examined(Unaudited(path=str(path), why=str(error), error=False))
    except BnauditError as error:
        unread = Unaudited(path=str(path), why=str(error), error=True)
        return Examined(unread, no_model=isinstance(error, NotAModelError))
    except Exception as error:
        return _broke(path, "reading", error)


def _broke(path: Path, doing: str, error: Exception) -> Examined:
    why = f"internal failure while {doing} ({where_raised(error)}): please report it with the file's origin"
    return Examined(Unaudited(path=str(path), why=why, error=True))


class _Rules(NamedTuple):
    selected: Sequence[Rule]
    unselected: Sequence[Rule]
    """Looked at only for the verdicts that they would decide."""

    @property
    def probes(self) -> frozenset[str]:
        """What the selected ones need to be measured."""
        return frozenset(need for rule in self.selected for need in rule.needs if need != "baseline")


@lru_cache(maxsize=64)
def _choose(select: tuple[str, ...], ignore: tuple[str, ...], intended: tuple[tuple[str, str], ...]) -> _Rules:
    asked = (*select, *ignore, *(rule for rule, _ in intended))
    for written, prefix in zip(asked, check_selectors(asked), strict=True):
        if written != prefix:  # of Settings made by hand: it would select nothing
            raise UsageError(f"no rule has an id that starts with {written!r}", remedy=f"write {prefix}")
    chosen = Settings(select=select, ignore=ignore)
    loaded = list(rules())
    return _Rules(
        [rule for rule in loaded if chosen.selects(rule.id)],
        [rule for rule in loaded if not chosen.selects(rule.id)],
    )


def conclude(
    description: Description,
    settings: Settings,
    selected: Sequence[Rule],
    unselected: Sequence[Rule] = (),
    ran: Run | None = None,
) -> Audit:
    """Apply the rules to one description and to what running it showed.

    The verdicts are about the whole artifact, also when only some layers are to be shown.
    """
    ran = ran or Run(description)
    description = ran.description or description
    findings, skipped, failed = _apply(description, settings, selected, unselected, ran)
    return Audit(
        artifact=description.artifact,
        description=description,
        verdicts=verdicts(
            description, findings, [(rule.id, rule.question) for rule in unselected], ran, _unfinished(selected, ran)
        ),
        ledger=ledger(description.parts, settings.covers, settings.all_layers),
        findings=tuple(finding for finding in findings if settings.covers(finding.layer)),
        skipped=tuple(skipped),
        failed=(*failed, *ran.broken),
        gaps=description.gaps,
        measured=ran.measured,
        not_run=ran.why_not,
        run_needs=ran.needs,
        run_failed=ran.failed,
        fail_on=settings.fail_on,
        required=settings.require,
        limits=settings.limits,
        selected=tuple(rule.id for rule in selected),
    )


def _apply(
    description: Description, settings: Settings, selected: Sequence[Rule], unselected: Sequence[Rule], ran: Run
) -> tuple[list[Finding], list[Skipped], list[Failed]]:
    hits: dict[str, list[Hit]] = {}
    skipped: list[Skipped] = []
    failed: list[Failed] = []
    # A rule that was not asked for still silences the less specific ones that yield to it.
    wanted = {id for rule in selected for id in rule.yields_to}
    asked = (*selected, *(other for other in unselected if other.id in wanted))
    for position, rule in enumerate(asked):
        if lacking := ran.lacks(rule.needs):
            if position < len(selected):
                skipped.append(Skipped(rule=rule.id, name=rule.name, needs=lacking))
            continue
        limits = MappingProxyType({**rule.limits, **settings.limits.get(rule.id, {})})
        try:
            found = list(rule.check(Case(description, limits, measured=ran.measured)))
        except Exception as error:
            failed.append(Failed(rule=rule.id, name=rule.name, error=where_raised(error)))
            continue
        hits[rule.id] = [_in_its_part(hit, ran) for hit in found] if rule.needs else found
    places = {id: {(hit.part, hit.layer) for hit in found} for id, found in hits.items()}
    findings = [
        _finding(rule, hit, description.artifact, settings, _is_intended(hit, rule, asked, places, settings))
        for rule in selected
        for hit in hits.get(rule.id, ())
        if not _taken(hit, rule, places)
    ]
    return sorted(findings, key=lambda f: (-f.severity, f.rule)), skipped, failed


def _unfinished(selected: Sequence[Rule], ran: Run) -> list[tuple[str, Question | None, Unmeasured]]:
    """Rules that were asked for and lack a measurement, each with the first probe that stopped."""
    stopped = {each.probe: each for each in ran.measured.unmeasured} if ran.measured is not None else {}
    found = [(rule, next((stopped[need] for need in rule.needs if need in stopped), None)) for rule in selected]
    return [(rule.id, rule.question, probe) for rule, probe in found if probe is not None]


def _in_its_part(hit: Hit, ran: Run) -> Hit:
    """What was measured is of the part that was run."""
    return replace(hit, part=ran.measured.part) if ran.measured is not None and not hit.part else hit


def _taken(hit: Hit, rule: Rule, places: dict[str, set[tuple[str, str | None]]]) -> bool:
    place = (hit.part, hit.layer)
    return hit.layer is not None and any(place in places.get(id, ()) for id in rule.yields_to)


def _is_intended(
    hit: Hit, rule: Rule, asked: Sequence[Rule], places: dict[str, set[tuple[str, str | None]]], settings: Settings
) -> bool:
    """Whether the settings mean it, by this rule or by a less specific one that saw the same and yields to it."""
    if settings.intends(rule.id, hit.layer):
        return True
    place = (hit.part, hit.layer)
    return any(
        rule.id in other.yields_to and place in places.get(other.id, ()) and settings.intends(other.id, hit.layer)
        for other in asked
    )


def _finding(rule: Rule, hit: Hit, artifact: Artifact, settings: Settings, intended: bool) -> Finding:
    own = settings.severity(rule.id, hit.severity or rule.severity)
    severity = settings.cap(own, hit.confidence)
    fails = hit.settles if hit.settles is not None else severity >= Severity.WARNING and not hit.undecided
    fingerprint = _fingerprint(rule.id, hit)
    acceptance = settings.acceptance(rule.id, hit.layer, fingerprint, artifact.path)
    if intended:
        severity, acceptance = Severity.NOTE, None
    excused = intended or (acceptance is not None and not acceptance.expired)
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
        fails=fails and not excused,
        undecided="" if excused else hit.undecided,
        intended=intended,
        acceptance=acceptance,
        fingerprint=fingerprint,
    )


def _fingerprint(rule: str, hit: Hit) -> str:
    """Made of what survives retraining: never of numbers. Findings on a whole artifact differ by what they name."""
    from hashlib import sha256

    if hit.layer is not None:
        place = f"layer {strip_wrappers(hit.layer)}"
    else:
        place = f"artifact {hit.value}" if isinstance(hit.value, str) else "artifact"
    return sha256(f"{rule}\0{hit.part}\0{place}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
