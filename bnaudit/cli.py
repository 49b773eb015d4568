"""The Typer app, put together from the files in commands/."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from bnaudit import __version__, plugins
from bnaudit.exit_codes import exit_code

COMMANDS = "bnaudit.commands"
EPILOG = """
Examples:

  bnaudit inspect model.pt

  bnaudit inspect models/ --fail-on warning

  bnaudit gate models/ --output sarif=out.sarif

  bnaudit explain BN105
"""


def app(arguments: Sequence[str]) -> typer.Typer:
    """The app. Only the command that `arguments` name is imported; all of them for help and completion."""
    built = typer.Typer(
        name="bnaudit",
        help="Audit the normalization layers of a model before it is deployed.",
        epilog=_epilog(EPILOG),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_global_options)
    every = plugins.names(COMMANDS)
    named = [name for name in arguments[:1] if name in every]
    for name in named or every:
        module = plugins.load(COMMANDS, name)
        epilog = _epilog(getattr(module, "EPILOG", ""))
        if subcommands := getattr(module, "SUBCOMMANDS", None):
            built.add_typer(_group(module.HELP, epilog, subcommands), name=name)
        else:
            built.command(name, epilog=epilog)(_exiting(module.command))
    return built


def _epilog(text: str) -> str | None:
    """Each paragraph in one line, for the terminal to break, and brackets as they are, not as markup."""
    paragraphs = text.strip("\n").replace("[", r"\[").split("\n\n")
    joined = "\n\n".join(each.rstrip().replace("\n", " ") for each in paragraphs)
    return f"\n{joined}\n" if joined else None  # what follows a first line loses its indentation


def _group(help: str, epilog: str | None, subcommands: Mapping[str, Callable[..., int]]) -> typer.Typer:
    group = typer.Typer(help=help, epilog=epilog, no_args_is_help=True)
    for name, command in subcommands.items():
        group.command(name, epilog=epilog)(_exiting(command))
    return group


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bnaudit {__version__}")
        raise typer.Exit()


def _global_options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def _exiting(command: Callable[..., int]) -> Callable[..., None]:
    """The command with its result as the exit code of the process."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        raise typer.Exit(exit_code(functools.partial(command, **options)))

    return run
