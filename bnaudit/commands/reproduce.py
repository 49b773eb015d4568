"""`bnaudit reproduce`: the smallest case that shows a defect, in a directory of its own."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.run_flags import REPORTED, runs_models
from bnaudit.score_flags import Kind, Precision, of_scores

if TYPE_CHECKING:
    from bnaudit.reproduction.explaining import Explained

EPILOG = """
Examples:

  bnaudit reproduce checkpoint.pt --model net.py:build --inputs samples.npz -o repro

  bnaudit reproduce model.onnx --inputs samples.npz -o repro --rule BN301

  bnaudit reproduce trained.pt --model net.py:build --inputs x.npz --observed scores.npz -o repro

  python repro/repro.py

Exit codes: 1 a defect was found and written down · 0 none showed · 2 wrong usage, an unreadable file, a model that
could not be run, or a script that does not show it · 3 nothing could be looked at · 130 interrupted.
"""


@runs_models
def command(
    path: Annotated[str | None, typer.Argument(help="The model's file, or file#part.", show_default=False)] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The directory to make.", rich_help_panel=REPORTED)
    ] = "repro",
    rule: Annotated[
        str | None,
        typer.Option(help="Only this defect, e.g. BN301.", rich_help_panel=REPORTED, show_default=False),
    ] = None,
    observed: Annotated[
        str | None,
        of_scores("What production returned, as `triage` takes it; what explains it is written."),
    ] = None,
    scores: Annotated[Kind | None, of_scores("What the scores are; otherwise the values tell.")] = None,
    companions: Annotated[str | None, of_scores("Inputs that stood beside each in its batch.")] = None,
    precision: Annotated[Precision | None, of_scores("What production computed in; otherwise float32.")] = None,
    include_model: Annotated[
        bool,
        typer.Option("--include-model", help="Copy the model's file into it, too.", rich_help_panel=REPORTED),
    ] = False,
    cap: Annotated[
        list[str] | None,
        typer.Option(help="Raise a limit of reading, e.g. value_bytes=1000000000.", rich_help_panel=REPORTED),
    ] = None,
    *,
    texts: RunTexts,
) -> int:
    """Find a defect by running the model, make it small, and write a script that shows it without bnaudit."""
    from bnaudit import option_texts
    from bnaudit.clean_stdout import stdout_kept_clean
    from bnaudit.diagnosis import ScoreKind
    from bnaudit.early_exit import early_exit_told
    from bnaudit.output import view, write
    from bnaudit.printable import printable
    from bnaudit.reproduction.explaining import reproduce_scores
    from bnaudit.reproduction.reproducing import Reproduction, reproduce
    from bnaudit.settings import Settings, caps_from

    settings = Settings(caps=caps_from(cap or ()), run=option_texts.run_options(texts))
    _check(observed, rule, include_model, scores, companions, precision)
    with stdout_kept_clean(), early_exit_told():
        if observed is None:
            made: Reproduction | Explained = reproduce(path, output, settings, rule=rule, include_model=include_model)
        else:
            made = reproduce_scores(
                path,
                output,
                observed,
                settings,
                kind=None if scores is None else ScoreKind(scores.value),
                companions=None if companions is None else option_texts.inputs_text(companions),
                precision="" if precision is None else precision.value,
            )
    said = [made.summary] if isinstance(made, Reproduction) else _answer(made)
    lines = [line for each in said for line in textwrap.wrap(printable(each), view().width, break_on_hyphens=False)]
    if made.folder is not None:
        lines.append(f"{printable(str(made.folder / 'repro.py'))} shows it: it exits with 1 while it is there")
    write("\n".join(lines) + "\n")
    return made.exit_code


def _answer(made: Explained) -> list[str]:
    """What `triage` says first, in its words."""
    from bnaudit.terminal.diagnosis_conclusion import advice, conclusion

    lines = [conclusion(made.diagnosis), *(f"→ {line}" for line in advice(made.diagnosis))]
    return lines if made.exit_code != 3 else [*lines, "No case was written: a script shows one exact explanation only."]


def _check(observed: str | None, rule: str | None, include_model: bool, *of_scores: object) -> None:
    """Options that need each other, or shut each other out."""
    from bnaudit.errors import UsageError

    if observed is None and any(of_scores):
        what = "--scores, --companions and --precision are about observed scores"
        raise UsageError(what, where="options", remedy="give these with --observed")
    if observed is not None and (rule is not None or include_model):
        what = "--rule and --include-model are about a defect of the model, --observed about production's scores"
        raise UsageError(what, where="options", remedy="leave out one of the two")
