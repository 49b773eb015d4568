"""The everyday command line, `bnaudit inspect PATH…`, parsed without Typer.

Importing Typer and building its parser takes longer than auditing a checkpoint of two gigabytes. So a command
line that is nothing but `inspect`, paths, and the few options below is read here; anything else, a mistake
included, is left to the Typer app, which knows every option. Both end in `bnaudit.inspection.inspect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class PlainInspect(NamedTuple):
    """What an everyday command line asks for."""

    paths: tuple[str, ...]
    format: str = "terminal"
    static: bool = False


def parse(arguments: Sequence[str]) -> PlainInspect | None:
    """The request, or None when Typer should parse: any other command, option, or shape."""
    if len(arguments) < 2 or arguments[0] != "inspect":
        return None
    paths: list[str] = []
    format, static = "terminal", False
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "--format":
            format = next(rest, "")
        elif argument.startswith("-"):
            if argument != "--static":
                return None
            static = True
        else:
            paths.append(argument)
    return PlainInspect(tuple(paths), format, static) if paths and format.isalpha() else None
