"""`bnaudit init`: write a first settings file for the models that are here."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """
Examples:

  bnaudit init

  bnaudit init --output ci/bnaudit.toml

Exit codes: 0 written · 2 there is such a file already, or it cannot be written.
"""


def command(
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where it is written; a file that is there is not overwritten.")
    ] = "bnaudit.toml",
) -> int:
    """Write a commented bnaudit.toml for the models below this folder. Nothing is imported or run."""
    from pathlib import Path

    from bnaudit.output import write
    from bnaudit.proposal.first_settings import write_first_settings

    write(write_first_settings(Path(), Path(output)))
    return 0
