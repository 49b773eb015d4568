"""`bnaudit gate`: audit models under a policy, for CI."""

from __future__ import annotations

from typing import Annotated

import typer

from bnaudit.option_texts import RunTexts
from bnaudit.policy_flags import PolicyTexts, takes_policy
from bnaudit.run_flags import runs_models

EPILOG = """
Examples:

  bnaudit gate models/ --output sarif=out.sarif --output junit=out.xml --output html=report.html

  bnaudit gate model.onnx --require buffers,eval-mode,neighbours --fail-on warning --max-gap 0.01

  bnaudit gate

  bnaudit gate --show-settings

  bnaudit gate checkpoints/ --static --output jsonl=results.jsonl --resume

Settings come from bnaudit.toml, or [tool.bnaudit] in pyproject.toml, in this folder or above; what is typed wins.
Without paths, those of the settings are audited. `bnaudit init` writes a first bnaudit.toml.

Exit codes: 0 passed · 1 findings at or above --fail-on, or a required verdict failed · 2 wrong usage or settings, an
unreadable file, a model that was to run and could not, or an internal failure · 3 nothing was checked, or a required
verdict is not decided · 130 interrupted. Of several, 2 goes before 1, and 1 before 3.
"""


@runs_models
@takes_policy
def command(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Model files, folders, or quoted patterns.", show_default=False)
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(help="A report: FORMAT=PATH, or FORMAT for stdout. Repeatable.", show_default=False),
    ] = None,
    show_accepted: Annotated[bool, typer.Option("--show-accepted", help="List accepted findings too.")] = False,
    all_layers: Annotated[bool, typer.Option("--all-layers", help="Show every layer and every note in full.")] = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Report only: findings and undecided verdicts give exit code 0.")
    ] = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print what is in force and where it came from, audit nothing.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="Processes; otherwise one, or as many as cores from 16 files.", min=1),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted --output jsonl=PATH.")] = False,
    *,
    context: typer.Context,
    policy: PolicyTexts,
    texts: RunTexts,
) -> int:
    """Let models pass, or not, under a policy: required verdicts, thresholds, accepted findings, reports for CI."""
    from bnaudit import gating
    from bnaudit.policy_flags import typed

    order = gating.Order(
        paths=tuple(paths or ()),
        config=policy.config,
        typed=typed(context, policy, texts),
        outputs=tuple(output or ()),
        show_accepted=show_accepted,
        all_layers=all_layers,
        exit_zero=exit_zero,
        jobs=jobs,
        resume=resume,
    )
    return gating.show_settings(order) if show_settings else gating.gate(order)
