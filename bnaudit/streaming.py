"""Audit any number of artifacts and write a line for each as soon as it is done; go on with an earlier run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bnaudit import __version__
from bnaudit.artifact_objects import HoldsFor, artifact_object, line_of
from bnaudit.artifact_state import neighbours, settings_digest, state
from bnaudit.auditing import Examined, examine, process_died, rule_names, usable_jobs
from bnaudit.description import NormLayer
from bnaudit.errors import UsageError
from bnaudit.progress import Progress, Silent
from bnaudit.records import replace
from bnaudit.result_lines import Line, ResultLines
from bnaudit.results import Audit, Unaudited
from bnaudit.settings import Settings
from bnaudit.tallies import Counted, Tally, counted
from bnaudit.targets import Targets
from bnaudit.worker_pool import Piece, results


def stream(
    targets: Targets,
    settings_for: Callable[[Path], Settings],
    destination: Path,
    progress: Progress,
    *,
    jobs: int = 1,
    resume: bool = False,
    exit_zero: bool = False,
    look: Callable[[Audit | Unaudited], None] | None = None,
) -> Tally:
    """Audit the targets and write each result to `destination`; with `resume` only what it does not hold yet.

    Lines come in the order in which they are done. Ctrl-C ends the audit and not this function: what is done is in
    the file, and the tally says so. An earlier result holds while the file, its settings and bnaudit's version are
    the same; what could not be audited is always tried again. The tally counts earlier and new results alike. `look`
    is shown each new result, of its layers only what they are and not their values.

    Raises UsageError for rules that do not exist, for a destination that holds something and is not resumed, for one
    to resume that holds something else or results of files that are not asked for, or that cannot be written.
    """
    begin = time.monotonic()
    tally = Tally(exit_zero=exit_zero)
    orders = _Orders(settings_for)
    work = {str(path): Piece(path, orders.of(path)) for path in targets.paths}
    earlier = _Earlier(work, tally, destination)
    opened = ResultLines.resumed(destination, earlier.choose) if resume else ResultLines.new(destination)
    with opened as lines:
        tally.other_files = targets.other_files
        for missing in targets.missing:
            _enter(_done(Examined(missing), None, keeps=look is not None), lines, tally, look)
        try:
            left = [piece for name, piece in work.items() if name not in earlier.kept]
            _audit(left, targets.unnamed, lines, tally, progress, jobs, look)
        except KeyboardInterrupt:
            tally.interrupted = True
    tally.seconds = time.monotonic() - begin
    return tally


class _Order(NamedTuple):
    """What holds for a path."""

    settings: Settings
    digest: str


class _Orders:
    """The settings for each path with their digests; one object for all paths with the same settings."""

    def __init__(self, settings_for: Callable[[Path], Settings]) -> None:
        self._settings_for = settings_for
        self._orders: dict[int, _Order] = {}

    def of(self, path: Path) -> _Order:
        settings = self._settings_for(path)
        if id(settings) not in self._orders:
            rule_names(settings)  # a rule that does not exist is told before anything is written
            # The order keeps the settings alive, and so their id from standing for others.
            self._orders[id(settings)] = _Order(settings, settings_digest(settings))
        return self._orders[id(settings)]


class _Earlier:
    """The results of an earlier run: which still hold."""

    def __init__(self, work: Mapping[str, Piece[Path, _Order]], tally: Tally, destination: Path) -> None:
        self._work = work
        self._tally = tally
        self._destination = destination
        self.kept: set[str] = set()

    def choose(self, lines: Iterable[Line]) -> list[bool]:
        """Which lines to keep. Raises UsageError when there are results that hold and are not asked for."""
        keeps, known = [], 0
        for line in lines:
            known += line["path"] in self._work
            keeps.append(self._keeps(line))
        if keeps and self._work and not known:
            raise self._other("none of its results is about a file that is asked for")
        self._tally.kept = len(self.kept)
        self._tally.dropped = len(keeps) - len(self.kept)
        return keeps

    def _keeps(self, line: Line) -> bool:
        name, piece = line["path"], self._work.get(line["path"])
        holds_for = _holds_for(line)
        if holds_for is None or name in self.kept:
            return False
        if piece is None:
            if _now(Path(name), holds_for, holds_for.settings) == holds_for:
                raise self._other(f"it has results of {name}, which is not asked for")
            return False
        if line.get("version") != __version__ or _now(piece.subject, holds_for, piece.context.digest) != holds_for:
            return False
        try:
            entry = counted(line)
        except (KeyError, TypeError, ValueError, AttributeError):  # written by hand
            return False
        if entry.exit_code == 2:
            return False
        self.kept.add(name)
        self._tally.add(entry)
        return True

    def _other(self, why: str) -> UsageError:
        remedy = "give the paths of the run that it is of, or another file"
        return UsageError(f"{self._destination} cannot be resumed, {why}", remedy=remedy)


def _holds_for(line: Line) -> HoldsFor | None:
    try:
        return HoldsFor(**line["holds_for"])
    except (KeyError, TypeError):
        return None


def _now(path: Path, before: HoldsFor, digest: str) -> HoldsFor | None:
    """The state of the path now, looked at as it was before."""
    now = state(path, digest)
    return replace(now, folder=neighbours(path)) if now is not None and before.folder and not now.folder else now


class _Done(NamedTuple):
    """What crosses from the process that audits to the one that writes."""

    line: str
    counted: Counted
    no_model: bool
    interrupted: bool
    entry: Audit | Unaudited | None


def _audit(
    work: Sequence[Piece[Path, _Order]],
    unnamed: Collection[Path],
    lines: ResultLines,
    tally: Tally,
    progress: Progress,
    jobs: int,
    look: Callable[[Audit | Unaudited], None] | None,
) -> None:
    jobs = usable_jobs(jobs, [piece.context.settings for piece in work])
    task = partial(_examined, keeps=look is not None, progress=progress if jobs == 1 else Silent())
    with closing(results(task, work, jobs, _died, progress.artifact)) as each:
        for position, done in each:
            if done.interrupted:
                raise KeyboardInterrupt  # half a run is no result: it is made again
            if done.no_model and work[position].subject in unnamed:
                tally.other_files += 1
                progress.finished(0)
            else:
                _enter(done, lines, tally, look)
                progress.finished(done.counted.exit_code)


def _enter(done: _Done, lines: ResultLines, tally: Tally, look: Callable[[Audit | Unaudited], None] | None) -> None:
    lines.write(done.line)
    tally.add(done.counted)
    if look is not None and done.entry is not None:
        look(done.entry)


def _examined(path: Path, order: _Order, keeps: bool, progress: Progress) -> _Done:
    before = state(path, order.digest)  # what is changed meanwhile is audited again
    examined = examine(path, order.settings, progress)
    entry = examined.entry
    if before is not None and not before.folder and isinstance(entry, Audit) and entry.artifact.size != before.size:
        before = replace(before, folder=neighbours(path))
    return _done(examined, before, keeps)


def _died(path: Path, how: str) -> _Done:
    return _done(process_died(path, how), None, keeps=True)


def _done(examined: Examined, holds_for: HoldsFor | None, keeps: bool) -> _Done:
    """keeps: whether the result itself is wanted, too, besides its line."""
    line = artifact_object(examined.entry, holds_for)
    entry = _without_values(examined.entry) if keeps else None
    return _Done(line_of(line), counted(line), examined.no_model, examined.interrupted, entry)


def _without_values(entry: Audit | Unaudited) -> Audit | Unaudited:
    """The result with the names of its layers and without their tensors, which are most of it."""
    if isinstance(entry, Unaudited):
        return entry
    parts = tuple(replace(part, layers=tuple(map(_bare, part.layers))) for part in entry.description.parts)
    return replace(entry, description=replace(entry.description, parts=parts), ledger=())


def _bare(layer: NormLayer) -> NormLayer:
    return replace(layer, weight=None, bias=None, running_mean=None, running_var=None, num_batches_tracked=None)
