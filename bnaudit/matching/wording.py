"""A move in words with numbers."""

from __future__ import annotations

import math

from bnaudit.comparison import Move, Pair
from bnaudit.description import NormLayer


def counter_change(move: Move) -> float | None:
    """By how much the batch counter grew; None where one side has none, or one that is no finite number."""
    if move.counters is None or not all(map(math.isfinite, move.counters)):
        return None
    before, after = move.counters
    return after - before


def moved_statistics(move: Move) -> str:
    """`mean by 0.73 sd, variance by a factor of 1.4, gain by up to 12 %, counter by +2`, as far as known."""
    said = []
    if move.mean_shift is not None:
        said.append(f"mean by {move.mean_shift:.3g} sd")
    if move.var_ratio is not None:
        said.append(f"variance by a factor of {move.var_ratio:.3g}")
    if move.gain_change is not None:
        said.append(f"gain by up to {percent(move.gain_change)}")
    change = counter_change(move)
    if change:
        said.append(f"counter by {change:+,.10g}")
    return ", ".join(said) or "by values that are not finite"


def moved_affine(move: Move) -> str:
    """`by 12 %`, relative L2 of weight and bias together."""
    return "by an unknown amount" if move.affine_change is None else f"by {percent(move.affine_change)}"


def not_finite_any_more(pair: Pair) -> str:
    """`3 values are not finite any more`: sizes of a move are of the others; "" where no more are than were."""
    broken = _not_finite(pair.subject) - _not_finite(pair.baseline)
    return f"{broken:,} value{'s are' if broken > 1 else ' is'} not finite any more" if broken > 0 else ""


def _not_finite(layer: NormLayer) -> int:
    known = [values for values in (layer.mean, layer.var, layer.gamma, layer.beta) if values is not None]
    return sum(int((~(abs(values) < math.inf)).sum()) for values in known)


def percent(share: float) -> str:
    """`0.0012 %`, `3.1 %`, `216 %`."""
    value = 100.0 * share
    return f"{value:,.0f} %" if value >= 10 else f"{value:.2g} %"


def rounded(value: float | None) -> float | None:
    """Four significant digits, for the number of a finding; None for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
