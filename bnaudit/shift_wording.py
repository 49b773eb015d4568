"""How a measured Shift reads in a finding: its size, its share of the output's scale, the decisions that flip."""

from __future__ import annotations

import math

from bnaudit.measurement import Shift

NOISE = 64.0
"""Default limit in units of the output's epsilon times its scale: kernels that sum in another order stay below it
(2e-7 to 4e-7 in float32, up to 5e-4 in float16 and 8e-3 in bfloat16 were seen)."""


def beyond(shift: Shift | None, epsilons: float) -> bool:
    """Whether two outputs differ by more than `epsilons` rounding steps of the output's scale."""
    return shift is not None and not shift.exact and shift.epsilons > epsilons


def amount(shift: Shift) -> str:
    """`by 0.83 (0.34 of the largest output)`, `in shape ([16] and [1])`."""
    if shift.shapes:
        return f"in shape ({shift.shapes})"
    if not math.isfinite(shift.difference):
        return "between a number and none (NaN or infinity)"
    share = f" ({shift.difference / shift.scale:.2g} of the largest output)" if shift.scale > 0 else ""
    return f"by {shift.difference:.3g}{share}"


def flips(shift: Shift) -> str:
    """`, 3 of 4 decisions flip`; "" when none does."""
    if not shift.flips:
        return ""
    verb = "flips" if shift.flips == 1 else "flip"
    return f", {shift.flips} of {shift.decisions} decisions {verb}"


def value(shift: Shift) -> float:
    """The difference as a finding's number, three digits."""
    return shift.difference if not math.isfinite(shift.difference) else float(f"{shift.difference:.3g}")


def limit(shift: Shift, epsilons: float) -> float | None:
    """`epsilons` in the unit of the difference, two digits; None where the shift is not finite."""
    if not (math.isfinite(shift.difference) and math.isfinite(shift.epsilons)) or shift.epsilons <= 0:
        return None
    return float(f"{epsilons * shift.difference / shift.epsilons:.2g}")
