"""Finds the settings and reads them: bnaudit.toml, or [tool.bnaudit] in pyproject.toml."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bnaudit.errors import UsageError
from bnaudit.policy.place import is_file, written

OWN = "bnaudit.toml"
SHARED = "pyproject.toml"


class Document(NamedTuple):
    """The settings of one file, unchecked."""

    source: str
    """The file as the user would write it; "": there is none."""
    root: Path
    """Its folder, absolute."""
    settings: Mapping[str, object]
    prefix: str = ""
    """In front of every key, `tool.bnaudit.` in pyproject.toml."""


def named(path: str) -> Document:
    """The settings in the file that --config names. Raises UsageError when it is not there or has none."""
    file = Path(path)
    if not is_file(file):
        raise UsageError("there is no such settings file", where=f"--config {path}", remedy="check the path")
    found = _read(file, path)
    if found is None:
        remedy = f"add a table [tool.bnaudit], or name a {OWN}"
        raise UsageError("this file has no settings of bnaudit", where=f"--config {path}", remedy=remedy)
    return found


def nearest_above(start: Path) -> Document:
    """The settings in `start` or in the first folder above that has some; none at all are no error.

    Raises UsageError where one folder has them in both files: an edit of the wrong one would change nothing.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        if os.path.lexists(folder / OWN) and not is_file(folder / OWN):
            remedy = "make it one, or take it away"
            raise UsageError(f"{written(folder / OWN)} is no file that can be read", remedy=remedy)
        files = [folder / name for name in (OWN, SHARED) if is_file(folder / name)]
        found = [document for file in files if (document := _read(file, written(file))) is not None]
        if len(found) > 1:
            what = f"both {found[0].source} and {found[1].source} have settings"
            raise UsageError(what, remedy=f"keep them in {OWN} and take [tool.bnaudit] away")
        if found:
            return found[0]
    return Document("", start, {})


def _read(file: Path, source: str) -> Document | None:
    """The settings in one file; None: it is a pyproject.toml that has none."""
    text = _text(file, source)
    shared = file.name == SHARED
    if shared:
        _refuse_mistyped_table(text, source)
        if "bnaudit" not in text:
            return None  # other tools' files need not even be valid
    values = parsed(text, source)
    if shared:
        tool = values.get("tool")
        if not isinstance(tool, Mapping) or "bnaudit" not in tool:
            return None
        values = tool["bnaudit"]
        if not isinstance(values, Mapping):
            raise UsageError("this needs a table", where=f"{source}: tool.bnaudit", remedy="write [tool.bnaudit]")
    return Document(source, file.absolute().parent, values, "tool.bnaudit." if shared else "")


def _refuse_mistyped_table(text: str, source: str) -> None:
    """Settings under a name that nobody reads would leave the defaults in force, and nobody would know."""
    for header, holder, name in _TABLE.findall(text):
        plain = name.lower().replace("-", "").replace("_", "")
        mistyped = plain == "bnaudit" or _distance_is_small(plain, "bnaudit")
        if mistyped and (holder, name) != ("tool", "bnaudit"):
            raise UsageError(f"{header} is no table of a tool", where=source, remedy="did you mean [tool.bnaudit]?")


def _distance_is_small(name: str, known: str) -> bool:
    """Letters exchanged, left out or added: `bnaduit`, `bnaudt`; the other tool that looks like it is `bandit`."""
    from difflib import SequenceMatcher

    return name[:2] == known[:2] and SequenceMatcher(None, name, known).ratio() >= _NEAR


_TABLE = re.compile(r"""^[ \t]*(\[[ \t]*(tools?)[ \t]*\.[ \t]*["']?([\w-]+)[^\n]*)""", re.MULTILINE)
_NEAR = 0.8
"""Of `bnaduit` 0.86, of `bnaudt` 0.92."""


def parsed(text: str, source: str) -> Mapping[str, Any]:
    """A TOML document. Raises UsageError with line and column where it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        document: Mapping[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise UsageError("values are nested too deeply", where=source, remedy="write a flatter table") from None
    except ValueError as error:
        raise UsageError(f"this is not TOML, {error}", where=source, remedy="correct it there") from error
    return document


def _text(file: Path, source: str) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        what = f"the settings are not UTF-8 at byte {error.start}"
        raise UsageError(what, where=source, remedy="save the file as UTF-8") from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"the settings cannot be read, {why}", where=source, remedy="check the file") from error
