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
from bnaudit.description import Description
from bnaudit.errors import BnauditError, NotAModelError, NotAuditedError, UnreadableError, UsageError, where_raised
from bnaudit.formats import Candidate, identify
from bnaudit.ledger import ledger
from bnaudit.measuring import Run, run
from bnaudit.progress import Progress, Silent
from bnaudit.reading.byte_source import ByteSource
from bnaudit.results import Audit, Question, Report, Unaudited
from bnaudit.rule_findings import check
from bnaudit.rules import Rule, rules
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
        return frozenset(need for rule in self.selected if "baseline" not in rule.needs for need in rule.needs)


@lru_cache(maxsize=64)
def _choose(select: tuple[str, ...], ignore: tuple[str, ...], intended: tuple[tuple[str, str], ...]) -> _Rules:
    asked = (*select, *ignore, *(rule for rule, _ in intended))
    for written, prefix in zip(asked, check_selectors(asked), strict=True):
        if written != prefix:  # of Settings made by hand: it would select nothing
            raise UsageError(f"no rule has an id that starts with {written!r}", remedy=f"write {prefix}")
    chosen = Settings(select=select, ignore=ignore)
    # What is about two artifacts, `bnaudit compare`, is no check of one that was left out, unless it is asked for.
    loaded = [rule for rule in rules() if select or "baseline" not in rule.needs]
    selected = [rule for rule in loaded if chosen.selects(rule.id)]
    if selected and all("baseline" in rule.needs for rule in selected):
        remedy = "bnaudit compare baseline.pt model.pt applies them"
        raise UsageError(f"no rule about one artifact is selected, {selected[0].id} is about two", remedy=remedy)
    return _Rules(selected, [rule for rule in loaded if not chosen.selects(rule.id)])


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
    found = check(description, settings, selected, unselected, ran)
    unasked = [(rule.id, rule.question) for rule in unselected]
    return Audit(
        artifact=description.artifact,
        description=description,
        verdicts=verdicts(description, found.findings, unasked, ran, _unfinished(selected, ran)),
        ledger=ledger(description.parts, settings.covers, settings.all_layers),
        findings=tuple(finding for finding in found.findings if settings.covers(finding.layer)),
        skipped=tuple(found.skipped),
        failed=(*found.failed, *ran.broken),
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


def _unfinished(selected: Sequence[Rule], ran: Run) -> list[tuple[str, Question | None, Unmeasured]]:
    """Rules that were asked for and lack a measurement, each with the first probe that stopped."""
    stopped = {each.probe: each for each in ran.measured.unmeasured} if ran.measured is not None else {}
    found = [(rule, next((stopped[need] for need in rule.needs if need in stopped), None)) for rule in selected]
    return [(rule.id, rule.question, probe) for rule, probe in found if probe is not None]
