"""`bnaudit inspect`: audit files, folders and patterns."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from bnaudit.plugins import names

EPILOG = """
Examples:

  bnaudit inspect model.pt

  bnaudit inspect a.pt b.onnx models/ 'ckpt/*.safetensors'

  bnaudit inspect model.pt --format json > report.json

  bnaudit inspect model.pt --select BN1 --ignore BN102 --fail-on warning

Exit codes: 0 nothing at or above --fail-on · 1 findings · 2 wrong usage, an unreadable file or an internal
failure · 3 nothing was checked.
"""


class Level(str, Enum):
    """A severity on the command line."""

    note = "note"
    warning = "warning"
    error = "error"


class Sureness(str, Enum):
    """A confidence on the command line."""

    low = "low"
    medium = "medium"
    high = "high"


def _formats(incomplete: str) -> list[str]:
    return [name for name in names("bnaudit.reports") if name.startswith(incomplete)]


def command(
    paths: Annotated[list[str], typer.Argument(help="Model files, folders, or quoted patterns.", show_default=False)],
    format: Annotated[str, typer.Option(help="Report format: terminal or json.", autocompletion=_formats)] = "terminal",
    select: Annotated[
        list[str] | None, typer.Option(help="Only rules whose id starts with this, e.g. BN1,BN201.", show_default=False)
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Leave out rules whose id starts with this.", show_default=False)
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(help="Only layers whose name fits this pattern, e.g. 'layer4.*'.", show_default=False),
    ] = None,
    all_layers: Annotated[bool, typer.Option("--all-layers", help="Show every layer and every note in full.")] = False,
    fail_on: Annotated[Level, typer.Option(help="Lowest severity that gives exit code 1.")] = Level.error,
    min_confidence: Annotated[
        Sureness, typer.Option(help="Confidence from which a finding keeps its full severity.")
    ] = Sureness.high,
    static: Annotated[
        bool, typer.Option("--static", help="Run nothing, whatever the format. This version never runs a model.")
    ] = False,
    cap: Annotated[
        list[str] | None,
        typer.Option(help="Raise a limit of reading, e.g. value_bytes=1000000000.", show_default=False),
    ] = None,
) -> int:
    """Audit the normalization layers of model files. Nothing in a file is executed."""
    from bnaudit.inspection import inspect
    from bnaudit.results import Confidence, Severity
    from bnaudit.settings import Settings, caps_from

    settings = Settings(
        select=_split(select),
        ignore=_split(ignore),
        layers=_split(layer),
        all_layers=all_layers,
        min_confidence=Confidence[min_confidence.value.upper()],
        fail_on=Severity[fail_on.value.upper()],
        caps=caps_from(cap or ()),
    )
    return inspect(paths, format, settings)


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(piece for value in values or () for piece in value.split(",") if piece)
