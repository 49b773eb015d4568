"""A demonstration in words, the same in the script, the README and the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bnaudit.reproduction.demonstration import Demonstration, Kind
from bnaudit.session import Mode

_MOST_NAMES = 4


def summary(found: Demonstration) -> str:
    """What the case shows, in one or two sentences with the numbers."""
    return f"{_claim(found)}{_numbers(found)}{_places(found)}"


def _claim(found: Demonstration) -> str:
    where = "In eval mode" if found.mode is Mode.INFERENCE else "As it was saved, without eval(),"
    companions = len(found.batches[0]) - 1
    if found.kind is Kind.NEIGHBOURS:
        beside = "one other companion" if companions == 1 else f"{companions} other samples beside it"
        return f"{where} the output of a sample changes with {beside} ({found.rule})."
    if found.kind is Kind.RANDOM:
        return f"{where} the same batch has another output with every seed ({found.rule})."
    if found.kind is Kind.REPEAT:
        return f"{where} the same batch has another output the second time ({found.rule})."
    if found.kind is Kind.STATE:
        return f"{where} a forward changes {listed(found.changed)} ({found.rule})."
    if found.kind is Kind.COPIES:
        return f"{where} copies of one sample in one batch have different outputs ({found.rule})."
    if found.statistics is not None:
        case = found.statistics
        name = case.layer or "the model itself"
        return (
            f"The statistics stored for {name} do not fit what it receives ({found.rule}): the mean is off"
            f" by {case.shift:.3g} standard deviations, the variance by a factor of {case.ratio:.3g}."
        )
    if found.raised:
        return f"{where} a sample alone raises, and among others it does not ({found.rule})."
    return f"{where} a sample alone has another output than among others ({found.rule})."


def _numbers(found: Demonstration) -> str:
    if found.kind in (Kind.STATE, Kind.STATISTICS) or found.raised or found.difference == float("inf"):
        return ""
    return f" The difference is {found.difference:.4g}; rounding can make {found.limit:.2g}."


def _places(found: Demonstration) -> str:
    if not found.layers or found.kind in (Kind.STATE, Kind.STATISTICS):
        return ""
    verb = {
        Kind.NEIGHBOURS: "Samples meet in",
        Kind.RANDOM: "It draws in",
        Kind.REPEAT: "What a forward leaves behind:",
    }.get(found.kind, "It happens in")
    return f" {verb} {listed(found.layers)}."


def listed(names: Sequence[str]) -> str:
    """`a, b and c`; of many the first ones."""
    shown = [name or "the model itself" for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        return f"{', '.join(shown)} and {len(names) - _MOST_NAMES} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
