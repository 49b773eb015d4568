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
    part: str
    layers: dict[str, NormLayer]


def averaged_pairs(description: Description) -> Iterator[AveragedPair]:
    """For each set of averaged weights the raw set with the most layers in common; none without a raw set."""
    averaged: list[_Side] = []
    raw: list[_Side] = []
    for part in description.parts:
        inside, outside = _split(part)
        averaged += [inside] if inside.layers else []
        raw += [outside] if outside.layers else []
    for side in averaged:
        pairs = max((_pairs(side, other) for other in raw), key=len, default=())
        if pairs:
            yield AveragedPair(side.part, pairs)


def _split(part: Part) -> tuple[_Side, _Side]:
    """The averaged and the raw layers of a part: all of one sort, or told apart by the first word of their names."""
    whole = part.averaged_over is not None or speaks_of_average(part.name)
    sides: tuple[dict[str, NormLayer], dict[str, NormLayer]] = ({}, {})
    for layer in part.layers:
        first, _, rest = layer.name.partition(".")
        inner = not whole and speaks_of_average(first)
        sides[not (whole or inner)][strip_wrappers(rest if inner else layer.name)] = layer
    return _Side(part.name, sides[0]), _Side(part.name, sides[1])


def speaks_of_average(name: str) -> bool:
    """Whether a key or attribute name says averaged weights: `model_ema`, `swaModel`; not `schema`."""
    words = _NO_LETTER.split(_HUMP.sub("_", name).lower())
    return not _WORDS.isdisjoint(words)


def _pairs(averaged: _Side, raw: _Side) -> tuple[tuple[NormLayer, NormLayer], ...]:
    both = ((layer, raw.layers[key]) for key, layer in averaged.layers.items() if key in raw.layers)
    return tuple(pair for pair in both if _comparable(*pair))


def _comparable(one: NormLayer, other: NormLayer) -> bool:
    statistics = (one.mean, one.var, other.mean, other.var)
    shapes = {None if values is None else values.shape for values in statistics}
    return len(shapes) == 1 and None not in shapes and one.kind.is_batch and other.kind.is_batch
