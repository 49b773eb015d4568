"""A file of results in JSON Lines that grows while an audit runs, and that a later run goes on with.

A line is written and flushed as soon as there is one, so that whatever ends the process costs at most the line that
was being written. Lines are only ever taken out by putting a new file in the place of the old one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Any, BinaryIO

from bnaudit.artifact_objects import SCHEMA
from bnaudit.errors import UsageError

_BEGINNING = f'{{"schema": "{SCHEMA}", '.encode()
"""Of every line, and so of a first line that was cut off."""
_LONGEST = 1 << 30
"""Bytes of a line beyond which a file holds something else."""

Line = dict[str, Any]


class ResultLines:
    """The file, open for more lines, as a context."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    @classmethod
    def new(cls, path: Path) -> ResultLines:
        """A new file; a pipe or device is written to. Raises UsageError for one that is there and holds something."""
        try:
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    ours = file.read(len(_BEGINNING)) == _BEGINNING
                remedy = "give --resume to go on with them" if ours else "give another path"
                raise UsageError(f"{path} holds {'results' if ours else 'something'} already", remedy=remedy)
            return cls(path, path.open("ab"))
        except OSError as error:
            raise _unwritable(path, error) from error

    @classmethod
    def resumed(cls, path: Path, choose: Callable[[Iterable[Line]], list[bool]]) -> ResultLines:
        """The file with those of its lines that `choose` says to keep; a new one when there is none.

        Raises UsageError when it holds anything but results, or what `choose` raises, and leaves it as it is then.
        """
        try:
            if not path.exists():
                return cls(path, path.open("ab"))
            if not path.is_file():
                raise UsageError(f"{path} is no file, nothing can be resumed", remedy="leave out --resume")
            kept, length = _chosen(path, choose)
            if sum(end - start for start, end in kept) != length:
                _rewrite(path.resolve(), kept)
            return cls(path, path.open("ab"))
        except OSError as error:
            raise _unwritable(path, error) from error

    def __enter__(self) -> ResultLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError as failed:
            raise _unwritable(self._path, failed) from failed

    def write(self, line: str) -> None:
        """Add a line that ends. Raises UsageError when there is no room, or the like."""
        try:
            self._file.write(line.encode("utf-8"))
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from error


def _chosen(path: Path, choose: Callable[[Iterable[Line]], list[bool]]) -> tuple[list[tuple[int, int]], int]:
    """Where the lines that are kept start and end, and the length of all."""
    places: list[tuple[int, int]] = []

    def each(file: BinaryIO) -> Iterator[Line]:
        for start, end, line in _lines(file, path):
            places.append((start, end))
            yield line

    with path.open("rb") as file:
        keeps = choose(each(file))
        length = os.fstat(file.fileno()).st_size
    return [place for place, keep in zip(places, keeps, strict=True) if keep], length


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, int, Line]]:
    """Each whole line with where it starts and ends; what follows the last line end was cut off and is passed over.

    Raises UsageError for a line that is no result; without any whole line, for a beginning that is not a result's.
    """
    start = number = 0
    while (text := file.readline(_LONGEST)).endswith(b"\n"):
        number += 1
        line = _parsed(text)
        if line is None:
            raise _other(path, number)
        yield start, start + len(text), line
        start += len(text)
    beginning = text[: len(_BEGINNING)]
    if not number and not _BEGINNING.startswith(beginning):
        raise _other(path, 1)


def _parsed(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    ours = isinstance(line, dict) and line.get("schema") == SCHEMA and isinstance(line.get("path"), str)
    return line if ours else None


def _rewrite(path: Path, kept: list[tuple[int, int]]) -> None:
    """Put a file with only these stretches in the place of this one."""
    with path.open("rb") as old, NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        try:
            for start, end in kept:
                old.seek(start)
                new.write(old.read(end - start))
            new.flush()
            os.fsync(new.fileno())
            new.close()
            old.close()
            shutil.copymode(path, new.name)
            Path(new.name).replace(path)
        except BaseException:
            new.close()
            Path(new.name).unlink(missing_ok=True)
            raise


def _other(path: Path, number: int) -> UsageError:
    what = f"line {number} of {path} is no result of an audit"
    return UsageError(what, remedy="name the file of the run that --resume is to go on with, or leave it out")


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written", where=str(error.strerror or error), remedy="check it")
