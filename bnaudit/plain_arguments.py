"""The everyday command lines, `bnaudit inspect PATH…` and `bnaudit compare A B`, parsed without Typer.

Importing Typer and building its parser takes longer than auditing a checkpoint of two gigabytes. So a command
line that is nothing but the command, paths, and the few options below is read here; anything else, a mistake
included, is left to the Typer app, which knows every option. Both end in the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class PlainInspect(NamedTuple):
    """What an everyday command line asks for."""

    paths: tuple[str, ...]
    format: str = "terminal"
    static: bool = False


class PlainCompare(NamedTuple):
    """The same, of two artifacts: what is trusted, and what is asked about."""

    paths: tuple[str, str]
    format: str = "terminal"
    static: bool = False


def parse(arguments: Sequence[str]) -> PlainInspect | PlainCompare | None:
    """The request, or None when Typer should parse: any other command, option, or shape."""
    if len(arguments) < 2 or arguments[0] not in ("inspect", "compare"):
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
    if not paths or not format.isalpha():
        return None
    if arguments[0] == "inspect":
        return PlainInspect(tuple(paths), format, static)
    return PlainCompare((paths[0], paths[1]), format, static) if len(paths) == 2 else None
