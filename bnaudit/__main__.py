"""`python -m bnaudit`, and the `bnaudit` script."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bnaudit.plain_arguments import PlainCompare, PlainInspect, PlainTrace


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        _main()
    except KeyboardInterrupt:  # before a command begins
        sys.stderr.write("bnaudit: interrupted\n")
        sys.exit(130)


def _main() -> None:
    # Collecting while modules are imported finds nothing and costs a tenth of the start-up time.
    gc.disable()
    _open_what_is_closed()
    from bnaudit.plain_arguments import parse

    plain = parse(sys.argv[1:])
    if plain is None:
        _run_app()
        return
    from bnaudit.exit_codes import exit_code

    sys.exit(exit_code(lambda: _run_plain(plain)))


def _run_plain(plain: PlainInspect | PlainCompare | PlainTrace) -> int:
    """What an everyday command line asks for, by the functions that the commands end in."""
    from bnaudit.plain_arguments import PlainCompare, PlainTrace
    from bnaudit.run_options import RunOptions
    from bnaudit.settings import Settings

    settings = Settings(run=RunOptions(static=plain.static))
    if isinstance(plain, PlainTrace):
        from bnaudit.tracing.showing import show

        return show(plain.path, plain.layer, plain.channel, plain.format, settings)
    from bnaudit.inspection import compare_two, inspect

    if isinstance(plain, PlainCompare):
        return compare_two(*plain.paths, plain.format, settings)
    return inspect(plain.paths, plain.format, settings)


def _run_app() -> None:
    from bnaudit.cli import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the help has characters that not every encoding has
    try:
        app(sys.argv[1:])()
    except OSError as error:  # where commands run it is told; this is the help
        sys.stderr.write(f"bnaudit: stdout cannot be written ({error.strerror or error}): write to another place\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(2)


def _open_what_is_closed() -> None:
    """A closed standard stream leads nowhere; otherwise the next file to be opened would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


if __name__ == "__main__":
    main()
