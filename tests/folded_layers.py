"""Convolutions with a batch norm behind them, and folded ones with one thing wrong, as plain float32 arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from builders import batch_norm
from numpy.typing import NDArray

from bnaudit.auditing import describe
from bnaudit.caps import Caps
from bnaudit.comparison import Folds, LinearLayer
from bnaudit.description import NormLayer
from bnaudit.folding import Side, folds
from bnaudit.folding.causes import judge
from bnaudit.folding.measuring import SAME_DIRECTION, weigh, weigh_reordered
from bnaudit.folding.norm_state import norm_state
from bnaudit.folding.verdict import Verdict
from bnaudit.matching import match

Array = NDArray[Any]

CHANNELS = 24
EPS = 1e-5
CAPS = Caps()


class Held:
    """An array as a stored tensor."""

    def __init__(self, array: Array, dtype: str = "") -> None:
        self._array = array
        self.dtype = dtype or str(array.dtype)
        self.shape = array.shape

    def load(self) -> Any:
        return self._array.astype(np.float64)


class Kind(NamedTuple):
    """A kind of layer: the shape of its weight, and on which axis its outputs are."""

    operator: str
    shape: tuple[int, ...]
    groups: int = 1


KINDS = {
    "conv": Kind("conv", (CHANNELS, 6, 3, 3)),
    "pointwise": Kind("conv", (CHANNELS, 16, 1, 1)),
    "depthwise": Kind("conv", (CHANNELS, 1, 3, 3), CHANNELS),
    "grouped": Kind("conv", (CHANNELS, 4, 3), 3),
    "transposed": Kind("transposed conv", (8, CHANNELS, 2, 2)),
    "grouped transposed": Kind("transposed conv", (12, CHANNELS // 4, 3, 3), 4),
    "linear": Kind("linear", (CHANNELS, 40)),
}


class Net(NamedTuple):
    """One layer with its norm."""

    kind: Kind
    weight: Array
    bias: Array
    mean: Array
    var: Array
    gamma: Array
    beta: Array
    eps: float = EPS

    @property
    def gain(self) -> Array:
        return self.gamma / np.sqrt(self.var + np.float32(self.eps))


def net(kind: str, seed: int = 0) -> Net:
    """Random float32 values as training leaves them: variances over three decades, biases that are not 0."""
    random = np.random.default_rng(seed)
    values = (
        random.normal(size=KINDS[kind].shape),
        random.normal(size=CHANNELS),
        random.normal(size=CHANNELS),
        10 ** random.uniform(-3.5, 0.5, CHANNELS),
        random.uniform(0.3, 1.7, CHANNELS),
        random.normal(size=CHANNELS),
    )
    return Net(KINDS[kind], *(value.astype(np.float32) for value in values))


def scaled(kind: Kind, weight: Array, gain: Array) -> Array:
    """weight · gain for each output channel, as PyTorch's fuse_conv_weights multiplies it (float32)."""
    if kind.operator != "transposed conv":
        return weight * gain.reshape(-1, *[1] * (weight.ndim - 1))
    inputs, outputs, *taps = weight.shape
    parts = weight.reshape(kind.groups, inputs // kind.groups, outputs, *taps)
    per_group = gain.reshape(kind.groups, 1, outputs, *[1] * len(taps))
    return (parts * per_group).reshape(weight.shape)


def reordered(kind: Kind, weight: Array, order: Array) -> Array:
    """The weight with its output channels in another order (within one group of a transposed layer)."""
    return weight[:, order] if kind.operator == "transposed conv" else weight[order]


class Folded(NamedTuple):
    """Weight and bias that hold the norm."""

    weight: Array
    bias: Array


def right(case: Net) -> Folded:
    """Folded rightly."""
    return Folded(scaled(case.kind, case.weight, case.gain), case.beta + (case.bias - case.mean) * case.gain)


Fault = Callable[[Net, np.random.Generator], Folded]


def layer(kind: Kind, weight: Array, bias: Array | None, name: str = "conv", *, says: bool = True) -> LinearLayer:
    """What a graph says of it; with `says=False` what a state dict does."""
    return LinearLayer(
        name=name,
        operator=kind.operator if says or kind.operator == "linear" else None,
        weight=Held(weight),
        bias=Held(bias) if bias is not None else None,
        groups=kind.groups if says else None,
    )


def norm(case: Net, **changes: Any) -> NormLayer:
    """The norm of the net."""
    return batch_norm(
        "bn", mean=case.mean, var=case.var, gamma=case.gamma, beta=case.beta, **{"eps": case.eps, **changes}
    )


def verdict(case: Net, folded: Folded, *, says: bool = True, **changes: Any) -> Verdict:
    """What is concluded of the pair; `changes` are those of the norm."""
    own = layer(case.kind, case.weight, case.bias, says=says)
    other = layer(case.kind, folded.weight, folded.bias, says=says)
    weighed, state = weigh(own, other, CHANNELS), norm_state(norm(case, **changes))
    if weighed is not None and weighed.turned > SAME_DIRECTION:
        weighed = weigh_reordered(own, other, CHANNELS) or weighed
    assert weighed is not None and state is not None
    return judge(weighed, state)


def folds_of(subject: Path, baseline: Path, caps: Caps = CAPS) -> Folds | None:
    """The folds between the first parts of two files."""
    ours, theirs = describe(subject).parts[0], describe(baseline).parts[0]
    return folds(Side(subject, ours, caps), Side(baseline, theirs, caps), match(ours, theirs))
