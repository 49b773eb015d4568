"""The everyday command lines, `bnaudit inspect PATH…`, `bnaudit compare A B` and `bnaudit trace PATH LAYER`, parsed
without Typer.

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


class PlainTrace(NamedTuple):
    """One channel of one layer."""

    path: str
    layer: str
    channel: int = 0
    format: str = "terminal"
    static: bool = False


def parse(arguments: Sequence[str]) -> PlainInspect | PlainCompare | PlainTrace | None:
    """The request, or None when Typer should parse: any other command, option, or shape."""
    if len(arguments) < 2 or arguments[0] not in ("inspect", "compare", "trace"):
        return None
    given: list[str] = []
    values = {"--format": "terminal", "--channel": "0"}
    static, rest = False, iter(arguments[1:])
    for argument in rest:
        if argument in values and (argument == "--format" or arguments[0] == "trace"):
            values[argument] = next(rest, "")
        elif argument == "--static":
            static = True
        elif argument.startswith("-"):
            return None
        else:
            given.append(argument)
    return _request(arguments[0], given, values["--format"], values["--channel"], static)


def _request(
    command: str, given: list[str], format: str, channel: str, static: bool
) -> PlainInspect | PlainCompare | PlainTrace | None:
    if not format.isalpha():
        return None
    if command == "inspect":
        return PlainInspect(tuple(given), format, static) if given else None
    if len(given) != 2:
        return None
    if command == "compare":
        return PlainCompare((given[0], given[1]), format, static)
    known = channel.isascii() and channel.isdigit() and len(channel) < 10 and format in ("terminal", "json")
    return PlainTrace(given[0], given[1], int(channel), format, static) if known else None
