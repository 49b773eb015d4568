"""Options of what is reported, the same in every command that prints findings."""

from __future__ import annotations

from enum import Enum
from typing import Any

import typer

from bnaudit.plugins import names
from bnaudit.run_flags import REPORTED


class Level(str, Enum):
    """A severity on the command line."""

    note = "note"
    warning = "warning"
    error = "error"


def formats(incomplete: str) -> list[str]:
    """The names of report formats that begin so, for completion."""
    return [name for name in names("bnaudit.reports") if name.startswith(incomplete)]


def reported(help: str, *names: str, show_default: bool = False, **more: Any) -> Any:
    """An option in the panel of what is reported."""
    return typer.Option(*names, help=help, rich_help_panel=REPORTED, show_default=show_default, **more)
