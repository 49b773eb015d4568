"""The limits in force: a rule's own, or what the settings put in their place. Pictures draw no other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from bnaudit.gap_limits import StatisticsLimits
from bnaudit.records import replace

Limits = Mapping[str, Mapping[str, float]]
OWN: Limits = MappingProxyType({})
"""Nothing in place of the rules' own."""


def limit_of(limits: Limits, rule: str, name: str, own: float) -> float:
    """The limit of this rule; `own` is its default."""
    return limits.get(rule, {}).get(name, own)


def statistics_limits(limits: Limits) -> StatisticsLimits:
    """BN404's."""
    return replace(StatisticsLimits(), **limits.get("BN404", {}))


def drawn(limit: float, words: str) -> tuple[float, str] | None:
    """A limit as it is drawn, with its words; None: it is infinite, so that there is none."""
    return (limit, words) if math.isfinite(limit) else None


def errors_text(errors: float) -> str:
    """`4 standard errors`."""
    return f"{errors:g} standard error{'' if errors == 1 else 's'}"
