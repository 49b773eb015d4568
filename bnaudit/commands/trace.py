"""`bnaudit trace`: one channel of one norm layer, worked through."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.run_flags import REPORTED, runs_models

EPILOG = """
Examples:

  bnaudit trace model.pt layer1.bn1 --channel 3

  bnaudit trace ckpt.pt#state_dict_ema bn1 --format json

  bnaudit trace checkpoint.pt bn1 --model net.py:build --inputs samples.npz

Exit codes: 0 traced · 2 wrong usage, an unreadable file, or a model that could not be run · 130 interrupted.
"""


class Form(str, Enum):
    """What is written to stdout."""

    terminal = "terminal"
    json = "json"


@runs_models
def command(
    path: Annotated[str, typer.Argument(help="The model's file, or file#part.", show_default=False)],
    layer: Annotated[str, typer.Argument(help="The norm layer: its name, or how it ends.", show_default=False)],
    channel: Annotated[int, typer.Option(help="The channel, counted from 0.", rich_help_panel=REPORTED)] = 0,
    format: Annotated[
        Form, typer.Option(help="How it is written.", show_default=True, rich_help_panel=REPORTED)
    ] = Form.terminal,
    cap: Annotated[
        list[str] | None,
        typer.Option(help="Raise a limit of reading, e.g. value_bytes=1000000000.", rich_help_panel=REPORTED),
    ] = None,
    *,
    texts: RunTexts,
) -> int:
    """Work one channel's arithmetic through: what it receives, mode, saved state, and every number of the formula."""
    from bnaudit import option_texts
    from bnaudit.settings import Settings, caps_from
    from bnaudit.tracing.showing import show

    settings = Settings(caps=caps_from(cap or ()), run=option_texts.run_options(texts))
    return show(path, layer, channel, format.value, settings)
