"""Where a setting is written: what an error names, and the folder that relative paths in it start from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from bnaudit.errors import UsageError


class Place(NamedTuple):
    """The place of one value."""

    text: str
    """`bnaudit.toml: files."models/*.pt".budget`, or the option, `--budget`."""
    folder: Path
    """Relative paths start here."""
    typed: bool = False
    """It stands on the command line."""
    example: str = ""
    """How the setting is written, for whoever wrote it otherwise."""

    def inside(self, name: str) -> Place:
        """The place of what a table holds under this name."""
        return self._replace(text=f"{self.text}{' ' if self.typed else '.'}{quoted(name)}")

    def path(self, text: str) -> str:
        """A path that is written here, as it is reached from the working directory."""
        return text if self.typed else written(self.folder / text)

    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """Raise UsageError: what is wrong here, and what to write."""
        raise UsageError(what, where=self.text, remedy=remedy or f"write {self.example}")

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors of a check that does not know of this place name it."""
        try:
            yield
        except UsageError as error:
            raise UsageError(error.what, where=self.text, remedy=error.remedy or f"write {self.example}") from error
        except OSError as error:  # a path that no file system takes
            self.refuse(f"there can be no such path, {error.strerror}", "check the path")


def quoted(name: str) -> str:
    """A key of TOML, bare where it may be."""
    if name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        return name
    return basic_string(name)


def basic_string(text: str) -> str:
    """A string of TOML; what no terminal should get is escaped.

    A byte of a path that is no text, which TOML cannot hold, stands as `?`: as a pattern it still fits.
    """
    return '"' + "".join(_ESCAPES.get(c, c) if c.isprintable() else _escaped(c) for c in text) + '"'


_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        return "?"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def written(path: Path) -> str:
    """The path as a user in the working directory would write it: relative, unless the two have only the root in
    common."""
    path = Path(os.path.normpath(path.absolute()))
    here = Path.cwd()
    try:
        shared = Path(os.path.commonpath((path, here)))
    except ValueError:  # another drive
        return str(path)
    return str(path) if shared == Path(shared.anchor) != here else os.path.relpath(path, here)


def is_file(path: str | Path) -> bool:
    """Whether a file is there; a path that no file system takes is none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False
