"""`bnaudit compare`: hold one artifact against another."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.plugins import names
from bnaudit.run_flags import REPORTED, runs_models

EPILOG = """
Examples:

  bnaudit compare trained.pt deployed.onnx

  bnaudit compare pretrained.pt finetuned.pt --all-layers

  bnaudit compare 'checkpoint.pt#state_dict' 'checkpoint.pt#state_dict_ema'

  bnaudit compare a.pt b.onnx --model net.py:build --inputs samples.npz

  bnaudit compare a.onnx b.onnx --inputs samples.npz --format json > report.json

  bnaudit compare trained.pt --model net.py:pretrained

  bnaudit compare model.pt --roundtrip --model net.py:build --inputs samples.npz

Exit codes: 0 nothing at or above --fail-on · 1 findings · 2 wrong usage, an unreadable file, or models that were to
run and could not · 3 nothing could be compared · 130 interrupted.
"""


class Level(str, Enum):
    """A severity on the command line."""

    note = "note"
    warning = "warning"
    error = "error"


def _formats(incomplete: str) -> list[str]:
    return [name for name in names("bnaudit.reports") if name.startswith(incomplete)]


def _reported(help: str, *names: str, show_default: bool = False, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=REPORTED, show_default=show_default, **more)


@runs_models
def command(
    baseline: Annotated[
        str | None, typer.Argument(help="What is trusted: a model file or folder, or file.pt#part.", show_default=False)
    ] = None,
    subject: Annotated[
        str | None, typer.Argument(help="What is asked about; without it the model of --model.", show_default=False)
    ] = None,
    roundtrip: Annotated[
        bool, typer.Option("--roundtrip", help="Save the one model, load it in a fresh process, compare.")
    ] = False,
    format: Annotated[
        str, _reported("Report format: terminal, html, json, markdown, …", show_default=True, autocompletion=_formats)
    ] = "terminal",
    select: Annotated[list[str] | None, _reported("Only rules whose id starts with this, e.g. BN601,BN605.")] = None,
    ignore: Annotated[list[str] | None, _reported("Leave out rules whose id starts with this.")] = None,
    intended: Annotated[
        list[str] | None, _reported("Meant to be so, a note: a rule, and where, e.g. 'BN604=head.*'. Repeatable.")
    ] = None,
    layer: Annotated[list[str] | None, _reported("Only findings on layers whose name fits this pattern.")] = None,
    all_layers: Annotated[bool, _reported("Show every layer and every note in full.", "--all-layers")] = False,
    fail_on: Annotated[Level, _reported("Lowest severity that gives exit code 1.", show_default=True)] = Level.error,
    cap: Annotated[list[str] | None, _reported("Raise a limit of reading, e.g. value_bytes=1000000000.")] = None,
    *,
    texts: RunTexts,
) -> int:
    """Compare two models, or two parts of one file: what moved, what was folded, where outputs part."""
    from bnaudit import option_texts
    from bnaudit.inspection import compare_two
    from bnaudit.results import Severity
    from bnaudit.settings import Settings, caps_from, check_selectors

    settings = Settings(
        select=check_selectors(_split(select)),
        ignore=check_selectors(_split(ignore)),
        layers=_split(layer),
        all_layers=all_layers,
        fail_on=Severity[fail_on.value.upper()],
        intended=option_texts.intended(intended or ()),
        caps=caps_from(cap or ()),
        run=option_texts.run_options(texts),
    )
    return compare_two(baseline, subject, format, settings, roundtrip=roundtrip)


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(piece for value in values or () for piece in value.split(",") if piece)
