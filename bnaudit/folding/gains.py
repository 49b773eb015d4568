"""Which gain a folded convolution has in it: that of the norm, that of another epsilon, or one without gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.comparison import FoldCause
from bnaudit.folding.epsilon import Solved, solve
from bnaudit.folding.measuring import Weighed
from bnaudit.folding.norm_state import NormState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RIVAL = 5.0
"""How much further away every other explanation has to be."""


class GainModel(NamedTuple):
    """An explanation of the gains."""

    cause: FoldCause
    gain: Array
    eps: float
    solved: Solved | None = None


def misfit(weighed: Weighed, gain: Array) -> Array:
    """Distance of the measured gains from these, per channel, in units of what rounding can do: up to 1 fits."""
    import numpy as np

    rounding = weighed.rounding
    floor = rounding.floor * weighed.entries**0.5
    size = np.where(weighed.size > 0, weighed.size, 1.0)
    allowed = rounding.slack * (rounding.unit * abs(gain) + floor / size)
    dead = weighed.folded_size / (rounding.slack * floor)
    with np.errstate(all="ignore"):
        found: Array = np.where(weighed.size > 0, abs(weighed.gain - gain) / allowed, dead)
    return found


def stray_misfit(weighed: Weighed) -> Array:
    """What no gain explains, per channel, in the same unit."""
    rounding = weighed.rounding
    floor = rounding.floor * weighed.entries**0.5
    found: Array = weighed.stray / (rounding.slack * (rounding.unit * weighed.folded_size + floor))
    return found


def gain_models(weighed: Weighed, norm: NormState) -> list[GainModel]:
    """The explanations that fit the measured gains, the plainest first."""
    found = []
    for with_gamma in (True, False):
        for model in _models(weighed, norm, with_gamma):
            if misfit(weighed, model.gain).max() <= 1.0:
                found.append(model)
                break
    return found


def _models(weighed: Weighed, norm: NormState, with_gamma: bool) -> list[GainModel]:
    """With the epsilon that the norm states, then with the one that the gains ask for."""
    models = []
    if norm.eps is not None:
        cause = FoldCause.EQUAL if with_gamma else FoldCause.GAMMA_IGNORED
        gain = norm.affine(norm.eps, gamma=with_gamma).gain
        models.append(GainModel(cause, gain, norm.eps))
    solved = solve(weighed, norm, with_gamma=with_gamma)
    if solved is not None:
        known = FoldCause.EQUAL if norm.eps is None else FoldCause.EPSILON
        cause = known if with_gamma else FoldCause.GAMMA_IGNORED
        gain = norm.affine(solved.eps, gamma=with_gamma).gain
        models.append(GainModel(cause, gain, solved.eps, solved))
    return models
