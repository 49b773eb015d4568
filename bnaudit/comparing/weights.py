"""What the convolutions and linear layers of two artifacts say: which hold norm layers, which changed shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bnaudit import folding
from bnaudit.caps import Caps
from bnaudit.comparing.parts import Choice
from bnaudit.comparing.sides import Side
from bnaudit.comparison import Folds, LinearLayer, Reshaped
from bnaudit.description import Part
from bnaudit.errors import BnauditError
from bnaudit.linear_layers import linear_layers
from bnaudit.matching.naming import plain_name


class Weights(NamedTuple):
    """What their weights say."""

    folds: Folds | None = None
    reshaped: tuple[Reshaped, ...] = ()
    remarks: tuple[str, ...] = ()
    """Of which file they are not read, and why."""


def weights_of(baseline: Side, subject: Side, choice: Choice, caps: Caps) -> Weights:
    """Folded norms recomputed, and layers of one name and another shape. A live model has no weights in a file."""
    if baseline.path is None or subject.path is None:
        return Weights()
    ours = folding.Side(subject.path, choice.subject, caps)
    theirs = folding.Side(baseline.path, choice.baseline, caps)
    folds = folding.folds(ours, theirs, choice.matching)
    try:
        return Weights(
            folds, _reshaped(_shapes(subject.path, ours.part, caps), _shapes(baseline.path, theirs.part, caps))
        )
    except BnauditError as error:
        return Weights(folds, remarks=(str(error),))


def _reshaped(ours: Mapping[str, LinearLayer], theirs: Mapping[str, LinearLayer]) -> tuple[Reshaped, ...]:
    both = [(ours[name], theirs[name]) for name in theirs if name in ours]
    return tuple(
        Reshaped(layer=mine.name, baseline_layer=other.name, shapes=(other.weight.shape, mine.weight.shape))
        for mine, other in both
        if not _is_same(mine.weight.shape, other.weight.shape)
    )


def _is_same(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """A graph may hold the matrix of a linear layer the other way round."""
    return one == other or (len(one) == 2 and one == other[::-1])


def _shapes(path: Path, part: Part, caps: Caps) -> dict[str, LinearLayer]:
    """The layers by name, without wrappers; no weight is read."""
    with linear_layers(path, part, caps) as layers:
        return {plain_name(layer.name): layer for layer in layers}
