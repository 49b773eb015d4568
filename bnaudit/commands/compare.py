"""`bnaudit compare`: hold one artifact against another."""

from __future__ import annotations

from typing import Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.report_flags import Level, formats, reported
from bnaudit.run_flags import runs_models

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
        str, reported("Report format: terminal, html, json, markdown, …", show_default=True, autocompletion=formats)
    ] = "terminal",
    select: Annotated[list[str] | None, reported("Only rules whose id starts with this, e.g. BN601,BN605.")] = None,
    ignore: Annotated[list[str] | None, reported("Leave out rules whose id starts with this.")] = None,
    intended: Annotated[
        list[str] | None, reported("Meant to be so, a note: a rule, and where, e.g. 'BN604=head.*'. Repeatable.")
    ] = None,
    layer: Annotated[list[str] | None, reported("Only findings on layers whose name fits this pattern.")] = None,
    all_layers: Annotated[bool, reported("Show every layer and every note in full.", "--all-layers")] = False,
    fail_on: Annotated[Level, reported("Lowest severity that gives exit code 1.", show_default=True)] = Level.error,
    cap: Annotated[list[str] | None, reported("Raise a limit of reading, e.g. value_bytes=1000000000.")] = None,
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
