"""Which of two sides folded norm layers, and which ones: told from the descriptions, before a weight is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.comparison import Matching
from bnaudit.description import NormKind, NormLayer, Part


class Side(NamedTuple):
    """One of two artifacts that are compared."""

    path: Path | None
    """None: a live model, whose weights are in no file."""
    part: Part
    caps: Caps


class Suspected(NamedTuple):
    """Norms that one side has and the other may have folded."""

    folded: str
    """`subject` or `baseline`: the side without them."""
    norms: tuple[NormLayer, ...]
    holder: Side
    other: Side


def suspected(subject: Side, baseline: Side, matching: Matching) -> Suspected | None:
    """The side with fewer norms of its own is the folded one; None when neither lacks a norm that can be folded."""
    ours, theirs = _foldable(matching.only_subject), _foldable(matching.only_baseline)
    if len(theirs) > len(ours):
        return Suspected("subject", theirs, baseline, subject)
    if len(ours) > len(theirs):
        return Suspected("baseline", ours, subject, baseline)
    return None


def _foldable(layers: tuple[NormLayer, ...]) -> tuple[NormLayer, ...]:
    """Only stored statistics make a norm one multiplication and one addition per channel."""
    return tuple(layer for layer in layers if _kind(layer) and layer.mean is not None and layer.var is not None)


def _kind(layer: NormLayer) -> bool:
    return layer.kind.is_batch or layer.kind is NormKind.UNKNOWN
