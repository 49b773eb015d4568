"""Changes to what a model computes with: what a hypothesis says happened in production, replayed for some forwards.

The model itself is never changed for good: a session runs the variation and puts everything back.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Altered(Record, eq=False):
    """One norm layer, changed. None: as it is."""

    training: bool = False
    """It normalizes with the batch, as after `train()` of this layer alone."""
    mean: NDArray[np.float64] | None = None
    """(channels,): in place of the running mean."""
    var: NDArray[np.float64] | None = None
    """(channels,): in place of the running variance."""
    gamma: NDArray[np.float64] | None = None
    beta: NDArray[np.float64] | None = None
    eps: float | None = None


class Variation(Record, eq=False):
    """What is computed otherwise than in eval as saved."""

    layers: Mapping[str, Altered] = MappingProxyType({})
    """Norm layer of the session's part → its change."""
    dtype: str = ""
    """`float16` or `bfloat16`: weights, inputs and arithmetic in this precision; "": as it is."""
    drops: bool = False
    """Dropout and its kind are in training mode. Draws follow the seed of the run."""

    def joined(self, other: Variation) -> Variation:
        """Both changes at once; where both say something of one field of one layer, `other` wins."""
        layers = dict(self.layers)
        for name, altered in other.layers.items():
            layers[name] = _both(layers[name], altered) if name in layers else altered
        return Variation(
            layers=MappingProxyType(layers), dtype=other.dtype or self.dtype, drops=self.drops or other.drops
        )


def _both(one: Altered, other: Altered) -> Altered:
    fields = {field: getattr(one if getattr(other, field) is None else other, field) for field in Altered._fields}
    return Altered(**{**fields, "training": one.training or other.training})
