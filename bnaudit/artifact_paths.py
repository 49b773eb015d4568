"""Paths of artifacts as reports for other programs write them: relative where they can be, `/` on any system."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

_FACTORY = re.compile(r"(?<=\.py):[^/\\:]*$")
"""`:build` of `net.py:build`, the function that a live model came from."""


def file_of(path: str) -> str:
    """The file that an artifact's path names: of `net.py:build`, `net.py`."""
    return _FACTORY.sub("", path)


def below_working_directory(path: str) -> str | None:
    """The path relative to the working directory, None when it is not below it."""
    named = Path(os.path.normpath(file_of(path)))
    if named.is_absolute():
        directory = Path.cwd()
        if not named.is_relative_to(directory):
            return None
        named = named.relative_to(directory)
    return None if ".." in named.parts[:1] or named.drive else named.as_posix()


def uri(path: str) -> str:
    """The URI of an artifact, RFC 3986: a relative reference, or `file:` for an absolute path elsewhere."""
    below = below_working_directory(path)
    named = below if below is not None else Path(os.path.normpath(file_of(path))).as_posix()
    quoted = quote(named.encode("utf-8", "surrogatepass"), safe="/")
    if below is None and Path(file_of(path)).is_absolute():
        return f"file://{quoted}" if quoted.startswith("/") else f"file:///{quoted.replace('%3A', ':', 1)}"
    return quoted
