"""The numbers of a norm layer that a fold takes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.arithmetic import PYTORCH_EPS, Affine, fold
from bnaudit.description import NormLayer
from bnaudit.folding.rounding import Rounding, rounding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class NormState(NamedTuple):
    """All float64 (channels,)."""

    mean: Array
    var: Array
    gamma: Array
    beta: Array
    eps: float | None
    """None: a state dict does not say."""
    rounding: Rounding
    """That of its stored tensors."""

    def affine(self, eps: float, *, gamma: bool = True) -> Affine:
        """Gain and shift with this epsilon; without `gamma` as if it were 1."""
        return fold(self.mean, self.var, self.gamma if gamma else None, self.beta, eps)

    @property
    def usual_eps(self) -> float:
        """The epsilon, PyTorch's where none is said."""
        return PYTORCH_EPS if self.eps is None else self.eps

    @property
    def finite(self) -> bool:
        """Whether a fold of it is a number in every channel."""
        import numpy as np

        positive = self.var + self.eps > 0.0 if self.eps is not None else self.var >= 0.0
        return bool(positive.all()) and all(
            bool(np.isfinite(values).all()) for values in (self.mean, self.var, self.gamma, self.beta)
        )


def norm_state(layer: NormLayer) -> NormState | None:
    """The numbers of the layer; None when it has no statistics, or they do not fit together."""
    import numpy as np

    mean, var = layer.mean, layer.var
    if mean is None or var is None or mean.ndim != 1 or mean.shape != var.shape or not mean.size:
        return None
    unread = any(tensor is not None and tensor.values is None for tensor in (layer.weight, layer.bias))
    gamma = np.ones_like(mean) if layer.gamma is None else layer.gamma
    beta = np.zeros_like(mean) if layer.beta is None else layer.beta
    if unread or gamma.shape != mean.shape or beta.shape != mean.shape:
        return None
    stored = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    coarsest = rounding(tensor.dtype for tensor in stored if tensor is not None)
    return NormState(mean, var, gamma, beta, layer.eps, coarsest)
