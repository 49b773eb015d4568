"""`bnaudit inspect`: audit files, folders, patterns, and models that run."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.report_flags import Level, formats, reported
from bnaudit.run_flags import runs_models

EPILOG = """
Examples:

  bnaudit inspect model.pt

  bnaudit inspect a.pt b.onnx models/ 'ckpt/*.safetensors'

  bnaudit inspect model.pt --format json > report.json

  bnaudit inspect model.pt --select BN1 --ignore BN102 --fail-on warning

  bnaudit inspect model.onnx --inputs samples.npz

  bnaudit inspect checkpoint.pt --model net.py:build --inputs samples.npz --budget 60s

  bnaudit inspect --model package.module:build --inputs package.data:batches

  bnaudit inspect scripted.pt --run --intended 'BN302=prenet.*'

Exit codes: 0 nothing at or above --fail-on · 1 findings · 2 wrong usage, an unreadable file, a model that was to
run and could not, or an internal failure · 3 nothing was checked · 130 interrupted.
"""


class Sureness(str, Enum):
    """A confidence on the command line."""

    low = "low"
    medium = "medium"
    high = "high"


@runs_models
def command(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Model files, folders, or quoted patterns.", show_default=False)
    ] = None,
    format: Annotated[
        str, reported("Report format: terminal, html, json, markdown, …", show_default=True, autocompletion=formats)
    ] = "terminal",
    select: Annotated[list[str] | None, reported("Only rules whose id starts with this, e.g. BN1,BN201.")] = None,
    ignore: Annotated[list[str] | None, reported("Leave out rules whose id starts with this.")] = None,
    intended: Annotated[
        list[str] | None, reported("Meant to be so, a note: a rule, and where, e.g. 'BN302=prenet.*'. Repeatable.")
    ] = None,
    layer: Annotated[list[str] | None, reported("Only layers whose name fits this pattern, e.g. 'layer4.*'.")] = None,
    all_layers: Annotated[bool, reported("Show every layer and every note in full.", "--all-layers")] = False,
    fail_on: Annotated[Level, reported("Lowest severity that gives exit code 1.", show_default=True)] = Level.error,
    min_confidence: Annotated[
        Sureness, reported("Confidence from which a finding keeps its full severity.", show_default=True)
    ] = Sureness.high,
    cap: Annotated[list[str] | None, reported("Raise a limit of reading, e.g. value_bytes=1000000000.")] = None,
    *,
    texts: RunTexts,
) -> int:
    """Audit the normalization layers of models: read them, then run what is safe or allowed on a few batches."""
    from bnaudit import option_texts
    from bnaudit.errors import UsageError
    from bnaudit.inspection import inspect
    from bnaudit.results import Confidence, Severity
    from bnaudit.settings import Settings, caps_from

    if not paths and texts.model is None:
        raise UsageError("there is nothing to audit", remedy="give model files or folders, or --model file.py:callable")
    settings = Settings(
        select=_split(select),
        ignore=_split(ignore),
        layers=_split(layer),
        all_layers=all_layers,
        min_confidence=Confidence[min_confidence.value.upper()],
        fail_on=Severity[fail_on.value.upper()],
        intended=option_texts.intended(intended or ()),
        caps=caps_from(cap or ()),
        run=option_texts.run_options(texts),
    )
    return inspect(paths or (), format, settings)


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(piece for value in values or () for piece in value.split(",") if piece)
