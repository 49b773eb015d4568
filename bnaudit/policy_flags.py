"""The options of a policy, for every command that gates: `@takes_policy` adds them to the command's own.

What is typed goes to the policy in the vocabulary of the settings file, and only what is typed: it wins over the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import typer

from bnaudit.merged_options import with_options_of
from bnaudit.option_texts import RunTexts

POLICY = "Policy"


class PolicyTexts(NamedTuple):
    """The options of a policy as they are typed; the names are those of the command line."""

    config: str | None = None
    require: list[str] | None = None
    fail_on: str | None = None
    max_gap: float | None = None
    baseline: str | None = None
    select: list[str] | None = None
    ignore: list[str] | None = None
    severity: list[str] | None = None
    limit: list[str] | None = None
    intended: list[str] | None = None
    layer: list[str] | None = None
    exclude: list[str] | None = None
    min_confidence: str | None = None
    cap: list[str] | None = None


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=POLICY, show_default=False)


FLAGS: dict[str, Any] = {
    "config": _option(help="The settings file; otherwise it is searched from here upwards."),
    "require": _option(
        help="Verdicts that have to pass: buffers, eval-mode, neighbours, train-eval-gap, frozen, all or none. "
        "Otherwise buffers, and also eval-mode and neighbours where a run is asked for."
    ),
    "fail_on": _option(help="Lowest severity that fails: note, warning or error; otherwise warning."),
    "max_gap": _option(help="Largest train–eval gap, as a share of the outputs' spread; it requires that verdict."),
    "baseline": _option(help="A file of accepted findings, see `bnaudit baseline create`."),
    "select": _option(help="Only rules whose id starts with this, e.g. BN1,BN201."),
    "ignore": _option(help="Leave out rules whose id starts with this."),
    "severity": _option(help="Another severity for rules, e.g. BN105=error. Repeatable."),
    "limit": _option(help="Another limit for a rule, e.g. BN404.mean-shift=0.4. Repeatable."),
    "intended": _option(help="Meant to be so, a note: a rule, and where, e.g. 'BN302=prenet.*'. Repeatable."),
    "layer": _option(help="Only layers whose name fits this pattern, e.g. 'layer4.*'."),
    "exclude": _option(help="Leave out files met in folders whose path fits this pattern. Repeatable."),
    "min_confidence": _option(help="Confidence from which a finding keeps its full severity: low, medium or high."),
    "cap": _option(help="Raise a limit of reading, e.g. value_bytes=1000000000."),
}
_KEYS = {"limit": "limits", "layer": "layers", "cap": "caps"}
"""Options whose name is not that of the setting."""
_LISTS = ("require", "select", "ignore", "layer", "exclude")
"""Options that take several values between commas."""


def takes_policy(command: Callable[..., int]) -> Callable[..., int]:
    """The command, which takes a PolicyTexts as `policy`, with an option for each of its fields instead."""
    return with_options_of(command, "policy", PolicyTexts, FLAGS)


def typed(context: typer.Context, policy: PolicyTexts, texts: RunTexts) -> dict[str, object]:
    """What was typed, as keys of the settings file and their values."""
    given: dict[str, object] = {}
    for name, value in (*policy._asdict().items(), *texts._asdict().items()):
        source = context.get_parameter_source(name)
        if name == "config" or source is None or source.name != "COMMANDLINE":
            continue
        key = _KEYS.get(name, name.replace("_", "-"))
        given[key] = _split(value) if name in _LISTS else value
    return given


def _split(values: Any) -> list[str]:
    return [piece.strip() for value in values for piece in value.split(",") if piece.strip()]
