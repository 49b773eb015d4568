"""Whether a side computes with stored statistics throughout: a reference that does not is none."""

from __future__ import annotations

from bnaudit.description import NormKind
from bnaudit.parting.side import Ran

_OPERATORLESS = (NormKind.FROZEN_BATCH, NormKind.RMS, NormKind.UNKNOWN)
"""Plain arithmetic, or not known to be a norm: that no operator was seen says nothing."""


def in_eval(ran: Ran) -> tuple[bool | None, str]:
    """True, False with what in it does not, or None where it cannot be told, with why."""
    found = [*_mixing(ran), *_dropping(ran)]
    if ran.unsteady:
        found.append(ran.unsteady)
    if found:
        return False, "; ".join(found)
    expected = [layer for layer in ran.part.layers if layer.kind not in _OPERATORLESS]
    if expected and not ran.norms:
        return None, f"no norm operator was seen, though {len(expected)} norm layers exist"
    return True, ""


def _mixing(ran: Ran) -> list[str]:
    calls = [seen.call for seen in ran.norms if seen.call.uses_batch and seen.call.kind.is_batch]
    names = list(dict.fromkeys(call.layer or call.place.module for call in calls if call.mixes_samples is not False))
    return [f"{_listed(names)} normalize{'s' if len(names) == 1 else ''} with the batch"] if names else []


def _dropping(ran: Ran) -> list[str]:
    calls = [call for call in ran.random if call.is_dropout]
    names = list(dict.fromkeys(call.place.module for call in calls))
    return [f"{_listed(names)} drop{'s' if len(names) == 1 else ''} at random"] if names else []


def _listed(names: list[str]) -> str:
    shown = ", ".join(name or "the model" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
