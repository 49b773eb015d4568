"""Where reports go: `sarif=out.sarif` to a file, `json` to stdout, several in one run.

A file is written beside its place and then put there, so that it is whole or not there at all.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.errors import BnauditError, UsageError
from bnaudit.formats import Candidate, identify
from bnaudit.nearest_name import nearest
from bnaudit.output import check_writable, view, write
from bnaudit.plugins import names
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reports import Renderer, View, renderer
from bnaudit.results import Report

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Names the file to which a step of a GitHub workflow appends Markdown."""
_SUMMARY_BYTES = 1 << 20
_LINES = {"terminal", "github"}
"""Reports that may stand in one stream: GitHub finds its commands between any other lines."""


class Destination(NamedTuple):
    """One report: its format, and its file; None: stdout."""

    renderer: Renderer
    path: Path | None


def destinations(texts: Iterable[str]) -> tuple[Destination, ...]:
    """From `format=path`, `format=-` and `format` texts. Without one for stdout, the terminal's report goes there.

    Raises UsageError for an unknown format, one that lacks a library, a path that cannot be written, or two reports in
    one place.
    """
    found: list[Destination] = []
    for text in texts:
        name, equals, path = text.partition("=")
        chosen = Destination(_renderer(name.strip(), text), Path(path) if path not in ("", "-") else None)
        if equals and not path:
            remedy = f"write {chosen.renderer.name}=PATH, or {chosen.renderer.name} alone for stdout"
            raise UsageError("this names no file", where=f"--output {text}", remedy=remedy)
        _check_place(chosen, found, text)
        if chosen.renderer.prepare is not None:
            chosen.renderer.prepare()
        found.append(chosen)
    if all(each.path is not None for each in found):
        found.append(Destination(renderer("terminal"), None))
    return tuple(found)


def check_not_models(places: Iterable[Destination], models: Iterable[Path]) -> None:
    """Raises UsageError when a report would be written over a model: one that is to be audited, or another."""
    audited = {os.path.realpath(path) for path in models}
    for each in places:
        if each.path is not None and (os.path.realpath(each.path) in audited or _holds_model(each.path)):
            raise _overwriting(each, "a model")


def check_not_read(places: Iterable[Destination], files: Iterable[tuple[str, str | Path]]) -> None:
    """Raises UsageError when a report would be written over one of these files, each with what it is."""
    read = {os.path.realpath(path): what for what, path in files}
    for each in places:
        if each.path is not None and (what := read.get(os.path.realpath(each.path))) is not None:
            raise _overwriting(each, what)


def _overwriting(place: Destination, what: str) -> UsageError:
    where = f"--output {place.renderer.name}={place.path}"
    return UsageError(f"a report would overwrite {what}", where=where, remedy="give another path")


def _holds_model(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with ByteSource.open(path, Caps()) as source:
            return identify(Candidate(path, source)).is_read
    except BnauditError:  # a report, or anything else that no format claims
        return False


def write_reports(report: Report, places: Sequence[Destination], look: View | None = None) -> None:
    """Write every report. Raises UsageError when one cannot be written, after all others are."""
    look = look or view()
    failures: list[UsageError] = []
    for each in places:
        try:
            _write_report(report, each, look)
        except UsageError as error:
            failures.append(error)
    if failures:
        for other in failures[1:]:
            failures[0].add(str(other))
        raise failures[0]


def _write_report(report: Report, place: Destination, look: View) -> None:
    if place.path is None:
        write(place.renderer.render(report, look))
    else:
        plain = look._replace(color=False, width=80)
        write_whole(place.path, place.renderer.render(report, plain))
    if place.renderer.name == "github":
        _append_summary(report, look)


def write_whole(path: Path, text: str) -> None:
    """The text as UTF-8 in this file, or what was there before and a UsageError. A pipe or device is written to."""
    encoded = text.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(encoded)
            return
        target = path.resolve()  # what a link points to, so that the link stays
        if target.exists() and not os.access(target, os.W_OK):  # a file may be replaced that may not be written
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            try:
                file.write(encoded)
                file.close()
                _keep_mode(target, Path(file.name))
                Path(file.name).replace(target)
            except BaseException:
                file.close()
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written", where=str(error.strerror or error), remedy="check it") from error


def _keep_mode(target: Path, made: Path) -> None:
    """A temporary file is its owner's alone; a report has the permissions of any new file, or of the one before."""
    if os.name == "nt":
        return
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    made.chmod(mode)


def _renderer(name: str, text: str) -> Renderer:
    known = names("bnaudit.reports")
    if name not in known:
        remedy = nearest(name, known, f"there are {', '.join(known)}")
        raise UsageError(f"no report format is called {name!r}", where=f"--output {text}", remedy=remedy)
    return renderer(name)


def _check_place(chosen: Destination, taken: Sequence[Destination], text: str) -> None:
    where = f"--output {text}"
    if chosen.path is None:
        together = [each.renderer.name for each in (*taken, chosen) if each.path is None]
        if len(set(together)) < len(together) or (len(together) > 1 and set(together) - _LINES):
            raise UsageError("two reports would go to stdout", where=where, remedy="give one of them a path")
        return
    check_writable(chosen.path, where, f"bnaudit{chosen.renderer.suffix}")
    if any(each.path is not None and each.path.resolve() == chosen.path.resolve() for each in taken):
        raise UsageError("two reports would go to one file", where=where, remedy="give another path")


def _append_summary(report: Report, look: View) -> None:
    """On GitHub, the Markdown report as the summary of the step, which holds at most a mebibyte."""
    place = os.environ.get(SUMMARY_VARIABLE)
    if not place:
        return
    encoded = renderer("markdown").render(report, look._replace(color=False)).encode("utf-8", "backslashreplace")
    try:
        with Path(place).open("ab") as file:
            if file.tell() + len(encoded) < _SUMMARY_BYTES:
                file.write(encoded)
            else:
                sys.stderr.write("bnaudit: the summary of this step is full, and the report is not in it\n")
    except OSError as error:
        what = f"the step summary cannot be written ({error.strerror})"
        raise UsageError(what, where=f"{SUMMARY_VARIABLE}={place}", remedy="unset it, or make it writable") from error
