"""`bnaudit reproduce`: the smallest case that shows a defect, in a directory of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.run_flags import REPORTED, runs_models

EPILOG = """
Examples:

  bnaudit reproduce checkpoint.pt --model net.py:build --inputs samples.npz -o repro

  bnaudit reproduce model.onnx --inputs samples.npz -o repro --rule BN301

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
    from bnaudit.early_exit import early_exit_told
    from bnaudit.output import write
    from bnaudit.printable import printable
    from bnaudit.reproduction.reproducing import reproduce
    from bnaudit.settings import Settings, caps_from

    settings = Settings(caps=caps_from(cap or ()), run=option_texts.run_options(texts))
    with stdout_kept_clean(), early_exit_told():
        made = reproduce(path, output, settings, rule=rule, include_model=include_model)
    lines = [printable(made.summary)]
    if made.folder is not None:
        lines.append(
            f"written: {printable(str(made.folder))}; python {printable(str(made.folder / 'repro.py'))} exits 1"
        )
    write("\n".join(lines) + "\n")
    return made.exit_code
