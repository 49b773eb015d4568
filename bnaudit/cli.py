"""The Typer app, put together from the files in commands/."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from bnaudit import __version__, plugins
from bnaudit.errors import BnauditError

if TYPE_CHECKING:
    from bnaudit.reports import View
    from bnaudit.settings import Settings

COMMANDS = "bnaudit.commands"


def run() -> None:
    """Run the command in `sys.argv` and exit with its code."""
    app(sys.argv[1:])()


def app(arguments: list[str]) -> typer.Typer:
    """The app. Only the command that `arguments` name is imported; all of them for help and completion."""
    built = typer.Typer(
        name="bnaudit",
        help="Audit the normalization layers of a model before it is deployed.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_global_options)
    every = plugins.names(COMMANDS)
    named = [name for name in arguments[:1] if name in every]
    for name in named or every:
        module = plugins.load(COMMANDS, name)
        built.command(name, epilog=getattr(module, "EPILOG", None))(_exiting(module.command))
    return built


def _show_version(wanted: bool) -> None:
    if wanted:
        write(f"bnaudit {__version__}\n")
        raise typer.Exit()


def _global_options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def _exiting(command: Callable[..., int]) -> Callable[..., None]:
    """The command with its expected failures as one sentence on stderr and its result as the exit code."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()
        try:
            code = command(**options)
        except BnauditError as error:
            sys.stderr.write(f"bnaudit: {error}\n")
            code = 2
        except KeyboardInterrupt:
            sys.stderr.write("bnaudit: interrupted\n")
            code = 130
        raise typer.Exit(code)

    return run


def write(text: str) -> None:
    """Text to stdout, whatever its encoding can show; a reader that has gone away is no error."""
    stream = sys.stdout
    try:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit; there is nobody left to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def view_of(settings: Settings | None = None) -> View:
    """How the user looks at stdout: width and colour of the terminal (`NO_COLOR`, `FORCE_COLOR` obeyed)."""
    from bnaudit.reports import View
    from bnaudit.reports.terminal import terminal_width
    from bnaudit.results import Severity

    color = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    color = (color or bool(os.environ.get("FORCE_COLOR"))) and not os.environ.get("NO_COLOR")
    return View(
        width=terminal_width(),
        color=color,
        in_full=settings.all_layers if settings else False,
        fail_on=settings.fail_on if settings else Severity.ERROR,
    )
