"""`bnaudit triage`: why production's scores differ."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.run_flags import REPORTED, runs_models
from bnaudit.score_flags import Kind, Precision, of_scores

EPILOG = """
Examples:

  bnaudit triage --observed log.csv

  bnaudit triage trained.pt --model net.py:build --inputs x.npz --observed scores.npz

  bnaudit triage trained.pt --model net.py:build --inputs x.npz --observed scores.csv --precision fp16

  bnaudit triage trained.pt --model net.py:build --inputs x.npz --observed log.npz --companions others.npz

  bnaudit triage served.onnx --inputs x.npz --observed scores.npz --format json > diagnosis.json

Exit codes: 0 nothing to explain · 1 a difference with an answer · 2 wrong usage, an unreadable file, or a model that
could not be run · 3 a difference without an answer, or a log that proves nothing · 130 interrupted.
"""


class Form(str, Enum):
    """What is written to stdout."""

    terminal = "terminal"
    json = "json"


@runs_models
def command(
    path: Annotated[
        str | None, typer.Argument(help="The model that should have made the scores.", show_default=False)
    ] = None,
    observed: Annotated[
        str | None, of_scores("What production returned: .npz, .npy, .csv or .jsonl, one row for each observation.")
    ] = None,
    scores: Annotated[Kind | None, of_scores("What the scores are; otherwise the values tell.")] = None,
    companions: Annotated[
        str | None, of_scores("Inputs that stood beside each in its batch: a file of inputs, or of requests.")
    ] = None,
    precision: Annotated[Precision | None, of_scores("What production computed in; otherwise float32.")] = None,
    format: Annotated[
        Form, typer.Option(help="How it is written.", show_default=True, rich_help_panel=REPORTED)
    ] = Form.terminal,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every residual, not the nearest ten.", rich_help_panel=REPORTED)
    ] = False,
    cap: Annotated[
        list[str] | None,
        typer.Option(help="Raise a limit of reading, e.g. value_bytes=1000000000.", rich_help_panel=REPORTED),
    ] = None,
    *,
    texts: RunTexts,
) -> int:
    """Find out why production's scores differ: replay what may have happened, or read a request log alone."""
    from bnaudit import option_texts
    from bnaudit.clean_stdout import stdout_kept_clean
    from bnaudit.diagnosis import ScoreKind
    from bnaudit.early_exit import early_exit_told
    from bnaudit.errors import UsageError
    from bnaudit.progress_bar import ProgressBar
    from bnaudit.score_triage import diagnose
    from bnaudit.settings import Settings, caps_from

    if observed is None:
        raise UsageError("there is nothing to explain", remedy="give what production returned: --observed scores.npz")
    settings = Settings(caps=caps_from(cap or ()), run=option_texts.run_options(texts))
    _check(path, texts, companions)
    with stdout_kept_clean(), early_exit_told(), ProgressBar() as bar:
        found = diagnose(
            observed,
            path,
            settings.run,
            kind=None if scores is None else ScoreKind(scores.value),
            companions=None if companions is None else option_texts.inputs_text(companions),
            precision="" if precision is None else precision.value,
            settings=settings,
            progress=bar,
        )
    _write(found, format, show_all)
    return found.exit_code


def _check(path: str | None, texts: RunTexts, companions: str | None) -> None:
    """Options that need each other."""
    from bnaudit.errors import UsageError

    has_model = path is not None or texts.model is not None
    if has_model and texts.inputs is None:
        remedy = "give them in the order of the scores: --inputs x.npz"
        raise UsageError("the inputs that were scored are missing", where="--inputs", remedy=remedy)
    for given, option in ((texts.inputs, "--inputs"), (companions, "--companions")):
        if given and not has_model:
            what = f"{option} is for a replay, and there is no model"
            raise UsageError(what, where=option, remedy="name the model that should have made the scores")


def _write(found: Any, format: Form, show_all: bool) -> None:
    from bnaudit.output import view, write

    seen = view()
    if format is Form.json:
        from bnaudit.diagnosis_objects import diagnosis_object
        from bnaudit.json_text import json_text

        write(json_text(diagnosis_object(found), indent=2) + "\n")
    else:
        from bnaudit.terminal.diagnosis_lines import diagnosis_text

        write(diagnosis_text(found, seen.width, seen.color, show_all))
