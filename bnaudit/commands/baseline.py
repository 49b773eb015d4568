"""`bnaudit baseline create`: accept what is there today."""

from __future__ import annotations

from typing import Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.policy_flags import PolicyTexts, takes_policy
from bnaudit.run_flags import runs_models

HELP = "Accept the findings of today, so that a gate fails on new ones only."
EPILOG = """
Examples:

  bnaudit baseline create models/ -o .bnaudit-baseline.json

  bnaudit gate models/ --baseline .bnaudit-baseline.json
"""


@runs_models
@takes_policy
def create(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Model files, folders, or quoted patterns.", show_default=False)
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="The file to write.")] = ".bnaudit-baseline.json",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Make the file anew; reasons of what is still found are kept.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why they are accepted, for all of them.", show_default=False)] = "",
    *,
    context: typer.Context,
    policy: PolicyTexts,
    texts: RunTexts,
) -> int:
    """Write a baseline of all that would fail the gate now."""
    from bnaudit import gating
    from bnaudit.policy_flags import typed

    order = gating.Order(paths=tuple(paths or ()), config=policy.config, typed=typed(context, policy, texts))
    return gating.create_baseline(order, output, overwrite, reason)


SUBCOMMANDS = {"create": create}
