"""Pairs layers by their values: bit-equal ones, and each other's nearest by a clear margin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bnaudit.description import NormLayer
from bnaudit.matching.signatures import Signature, computed, signature

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST_GROUP = 256
"""Layers of one signature on a side, above which nearest ones are not looked for: n² distances."""
_MOST_VALUES = 1 << 22
"""Values of one such group on a side, above which neither: 32 MB."""
_MARGIN = 3.0
"""How much further away the second nearest has to be."""
_FURTHEST = 0.5
"""Largest relative distance of two that are still alike."""
_FURTHEST_ALONE = 0.1
"""The same where neither has a rival: any two layers of one shape are nearest to each other then."""

Indexed = Sequence[tuple[int, NormLayer]]


def equal_pairs(subject: Indexed, baseline: Indexed) -> Iterator[tuple[int, int]]:
    """Pairs of layers with bit-equal values that no other layer of the two sides has."""
    ours, theirs = _by_bits(subject), _by_bits(baseline)
    for bits, places in ours.items():
        others = theirs.get(bits, ())
        if len(places) == 1 and len(others) == 1:
            yield places[0], others[0]


def _by_bits(layers: Indexed) -> dict[tuple[Any, ...], list[int]]:
    found: dict[tuple[Any, ...], list[int]] = {}
    for place, layer in layers:
        own = computed(layer)
        bits = tuple(None if values is None else values.tobytes() for values in _values(layer))
        if own is not None and any(bits) and not _is_initial(layer):
            found.setdefault((own, *bits), []).append(place)
    return found


def _values(layer: NormLayer) -> tuple[NDArray[np.float64] | None, ...]:
    return layer.gamma, layer.beta, layer.mean, layer.var


def _is_initial(layer: NormLayer) -> bool:
    """Whether every tensor is constant, as built: such layers are equal without being the same."""
    return all(
        values is None or values.size == 0 or bool((values == values.flat[0]).all()) for values in _values(layer)
    )


def nearest_pairs(subject: Indexed, baseline: Indexed) -> Iterator[tuple[int, int]]:
    """Pairs of one signature that are each other's nearest, with every rival three times as far away."""
    ours, theirs = _by_signature(subject), _by_signature(baseline)
    for own, group in ours.items():
        others = theirs.get(own, [])
        if others and max(len(group), len(others)) <= _LARGEST_GROUP:
            yield from _nearest(group, others)


def _by_signature(layers: Indexed) -> dict[Signature, list[tuple[int, NormLayer]]]:
    found: dict[Signature, list[tuple[int, NormLayer]]] = {}
    for place, layer in layers:
        own = signature(layer)
        if own is not None and not _is_initial(layer):
            found.setdefault(own, []).append((place, layer))
    return found


def _nearest(ours: Indexed, theirs: Indexed) -> Iterator[tuple[int, int]]:
    import numpy as np

    everything = [values for _, layer in (*ours, *theirs) for values in _values(layer) if values is not None]
    channels = max((values.size for values in everything), default=0)
    if 4 * channels * max(len(ours), len(theirs)) > _MOST_VALUES:
        return
    one, other = _vectors(ours, channels), _vectors(theirs, channels)
    sizes = np.linalg.norm(one, axis=1)[:, None] + np.linalg.norm(other, axis=1)[None, :]
    # (a − b)² = a² + b² − 2ab loses small distances to rounding; row by row costs no more memory.
    distances = np.stack([np.linalg.norm(other - row, axis=1) for row in one]) / np.where(sizes > 0, sizes, 1.0)
    for place in range(len(ours)):
        partner = int(distances[place].argmin())
        nearest = distances[place, partner]
        rivals = min(_second(distances[place]), _second(distances[:, partner]))
        furthest = _FURTHEST if rivals < float("inf") else _FURTHEST_ALONE
        if int(distances[:, partner].argmin()) == place and nearest <= furthest and rivals > _MARGIN * nearest:
            yield ours[place][0], theirs[partner][0]


def _second(distances: NDArray[np.float64]) -> float:
    """The second smallest; inf for one alone."""
    return float(sorted(distances.tolist())[1]) if distances.size > 1 else float("inf")


def _vectors(layers: Indexed, channels: int) -> NDArray[np.float64]:
    """(layers, 4 · channels): gamma, beta, mean ÷ deviation and log variance; what is not there is 0."""
    import numpy as np

    rows = np.zeros((len(layers), 4, channels))
    with np.errstate(all="ignore"):
        for row, (_, layer) in zip(rows, layers, strict=True):
            gamma, beta, mean, var = _values(layer)
            scale = np.sqrt(np.abs(var) + 1e-5) if var is not None else None
            scaled = mean / scale if mean is not None and scale is not None and mean.shape == scale.shape else mean
            logarithm = np.log(np.abs(var) + 1e-5) if var is not None else None
            for place, values in enumerate((gamma, beta, scaled, logarithm)):
                if values is not None:
                    row[place, : values.size] = values.reshape(-1)
    return np.clip(np.nan_to_num(rows.reshape(len(layers), -1)), -1e6, 1e6)
