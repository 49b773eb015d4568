"""Which channels of which layers hold NaN or infinity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.description import NormLayer, Part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Named = tuple[str, NDArray[np.float64] | None]


class NonFinite(NamedTuple):
    """A layer with values that are no numbers."""

    layer: NormLayer
    tensors: str
    """Which of its tensors hold them: `running_mean and running_var`."""
    channels: tuple[int, ...]
    """In any of these tensors, ascending."""
    first: str
    """The first such layer of the part: NaN travels forwards from there."""


def non_finite(part: Part, tensors_of: Callable[[NormLayer], Iterable[Named]], allowed: float) -> Iterator[NonFinite]:
    """The layers of which more than `allowed` channels are not finite, in the order of the part."""
    first = ""
    for layer in part.layers:
        names: list[str] = []
        channels: set[int] = set()
        for name, values in tensors_of(layer):
            # NaN and inf alike fail the comparison, and no other value does.
            if values is not None and not (finite := abs(values) < math.inf).all():
                names.append(name)
                channels.update((~finite).reshape(-1).nonzero()[0].tolist())
        if len(channels) > allowed:
            first = first or layer.name or "the model itself"
            yield NonFinite(layer, " and ".join(names), tuple(sorted(channels)), first)
