"""Finds averaged weights (EMA, SWA) beside the raw ones in one artifact, and pairs their norm layers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.description import Description, NormLayer, Part
from bnaudit.layer_names import strip_wrappers

_WORDS = frozenset({"ema", "swa", "avg", "average", "averaged", "shadow"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = re.compile(r"[^a-z]+")


class AveragedPair(NamedTuple):
    """Averaged weights and the raw ones that they belong to."""

    part: str
    """The part that holds the averaged ones."""
    layers: tuple[tuple[NormLayer, NormLayer], ...]
    """(averaged, raw), layers of one name with running statistics of one shape on both sides."""


class _Side(NamedTuple):
    """One set of weights: its part, and its layers by what is left of their names without what names the set."""

    part: str
    layers: dict[str, NormLayer]


def averaged_pairs(description: Description) -> Iterator[AveragedPair]:
    """For each set of averaged weights the raw set with the most layers in common; none without a raw set."""
    split = [_split(part) for part in description.parts]
    averaged = [inside for inside, _ in split if inside.layers]
    raw = [side for _, outside in split for side in _readings(outside)] if averaged else []
    for side in averaged:
        pairs = max((_pairs(side, other) for other in raw), key=len, default=())
        if pairs:
            yield AveragedPair(side.part, pairs)


def complete_copies(description: Description, bare: Part) -> dict[str, str]:
    """For each layer of `bare` that has a counterpart with running statistics elsewhere: its name -> the part of that.

    Elsewhere is another part that holds the layer under the same name, or the raw weights of the same part where the
    layer is an averaged one.
    """
    inside, outside = _split(bare)
    found: dict[str, str] = {}
    for part in description.parts:
        if part is bare:
            own, candidates = [inside], _readings(outside)
        else:
            own, candidates = [inside, outside], _readings(_all_of(part))
        for key, layer in ((key, layer) for side in own for key, layer in side.layers.items()):
            if any(_keeps_both(other.layers[key]) for other in candidates if key in other.layers):
                found.setdefault(layer.name, part.name)
    return found


def speaks_of_average(name: str) -> bool:
    """Whether a key or attribute name says averaged weights: `model_ema`, `swaModel`; not `schema`."""
    words = _NO_LETTER.split(_HUMP.sub("_", name).lower())
    return not _WORDS.isdisjoint(words)


def _split(part: Part) -> tuple[_Side, _Side]:
    """The averaged and the raw layers of a part: all of one sort, or told apart by the first word of their names."""
    if part.averaged_over is not None or speaks_of_average(part.name):
        return _all_of(part), _Side(part.name, {})
    averaged: dict[str, NormLayer] = {}
    raw: dict[str, NormLayer] = {}
    for layer in part.layers:
        name = strip_wrappers(layer.name)
        first, dot, rest = name.partition(".")
        if not dot:
            # mmcv and mmengine register `ema_layer1_0_bn1_weight` beside `layer1.0.bn1.weight`.
            first, _, rest = name.partition("_")
        if rest and speaks_of_average(first):
            averaged[_key(strip_wrappers(rest))] = layer
        else:
            raw[_key(name)] = layer
    return _Side(part.name, averaged), _Side(part.name, raw)


def _all_of(part: Part) -> _Side:
    return _Side(part.name, {_key(strip_wrappers(layer.name)): layer for layer in part.layers})


def _key(name: str) -> str:
    return name.replace(".", "_")


def _readings(raw: _Side) -> list[_Side]:
    """The raw weights under their own names, and without the first word: `net.bn1` stands beside `net_ema.bn1`."""
    inner: dict[str, dict[str, NormLayer]] = {}
    for layer in raw.layers.values():
        first, dot, rest = strip_wrappers(layer.name).partition(".")
        if dot:
            inner.setdefault(first, {})[_key(rest)] = layer
    return [side for side in (raw, *(_Side(raw.part, layers) for layers in inner.values())) if side.layers]


def _keeps_both(layer: NormLayer) -> bool:
    return layer.running_mean is not None and layer.running_var is not None


def _pairs(averaged: _Side, raw: _Side) -> tuple[tuple[NormLayer, NormLayer], ...]:
    both = ((layer, raw.layers[key]) for key, layer in averaged.layers.items() if key in raw.layers)
    return tuple(pair for pair in both if _comparable(*pair))


def _comparable(one: NormLayer, other: NormLayer) -> bool:
    statistics = (one.mean, one.var, other.mean, other.var)
    shapes = {None if values is None else values.shape for values in statistics}
    return len(shapes) == 1 and None not in shapes and one.kind.is_batch and other.kind.is_batch
