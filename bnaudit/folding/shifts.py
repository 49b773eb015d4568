"""Which shift a folded convolution has in its bias: the norm's, or one that lacks a term or has it twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.comparison import FoldCause
from bnaudit.folding.measuring import Weighed
from bnaudit.folding.norm_state import NormState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Terms(NamedTuple):
    """What the folded bias is the sum of, each (out,)."""

    bias: Array
    """The convolution's own, multiplied by the gain behind it."""
    mean: Array
    """− mean · gain, through the weights when the norm stands before them."""
    beta: Array
    size: Array
    """Sum of what the three are made of, without signs: what rounding is relative to."""

    @property
    def exact(self) -> Array:
        """The right bias."""
        total: Array = self.bias + self.mean + self.beta
        return total


class ShiftModel(NamedTuple):
    """An explanation of the biases."""

    cause: FoldCause
    words: str
    expected: Array


def terms(weighed: Weighed, norm: NormState, gain: Array) -> Terms:
    """The terms of the bias for this gain."""
    mean = -norm.mean * gain
    mixing = weighed.mixing
    if mixing is None:
        bias = weighed.bias * gain
        return Terms(bias, mean, norm.beta, abs(bias) + abs(mean) + abs(norm.beta))
    size = abs(weighed.bias) + mixing.bound(mean) + mixing.bound(norm.beta)
    return Terms(weighed.bias, mixing.outputs(mean), mixing.outputs(norm.beta), size)


def shift_misfit(weighed: Weighed, expected: Array, size: Array) -> Array:
    """Distance of the folded biases from these, per output, in units of what rounding can do: up to 1 fits."""
    rounding = weighed.rounding
    floor = rounding.floor + 1e-300
    found: Array = abs(weighed.folded_bias - expected) / (rounding.slack * (rounding.unit * size + floor))
    return found


def shift_models(weighed: Weighed, found: Terms) -> list[ShiftModel]:
    """All explanations, the right one first."""
    bias, mean, beta = found.bias, found.mean, found.beta
    forgotten, doubled, ignored = FoldCause.BIAS_FORGOTTEN, FoldCause.BIAS_DOUBLED, FoldCause.BETA_IGNORED
    models = [
        ShiftModel(FoldCause.EQUAL, "", found.exact),
        ShiftModel(forgotten, f"the layer's own bias, up to {_largest(bias)}, is missing", mean + beta),
        ShiftModel(doubled, f"the layer's own bias, up to {_largest(bias)}, is in it twice", found.exact + bias),
        ShiftModel(doubled, f"beta, up to {_largest(beta)}, is in it twice", found.exact + beta),
        ShiftModel(ignored, f"beta, up to {_largest(beta)}, is missing", bias + mean),
        ShiftModel(FoldCause.UNKNOWN, f"the mean's part, up to {_largest(mean)}, is missing", bias + beta),
        ShiftModel(FoldCause.UNKNOWN, "the folded layer has no bias that the norm gives it", bias),
    ]
    if weighed.mixing is None:
        words = f"the layer's own bias, up to {_largest(weighed.bias)}, was added once more as it is"
        models.append(ShiftModel(doubled, words, found.exact + weighed.bias))
        words = f"the layer's own bias, up to {_largest(weighed.bias)}, was added without the gain"
        models.append(ShiftModel(FoldCause.UNKNOWN, words, mean + beta + weighed.bias))
    return models


def _largest(values: Array) -> str:
    return f"{float(abs(values).max()):.3g}"
