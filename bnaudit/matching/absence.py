"""Whether a norm layer without a partner can be said to be missing in the other artifact."""

from __future__ import annotations

from bnaudit.comparison import Comparison
from bnaudit.description import NormKind, NormLayer, Part
from bnaudit.matching.configuration import has_identity_affine
from bnaudit.matching.signatures import family


def is_missing(comparison: Comparison, layer: NormLayer, side: str) -> bool:
    """Whether the side, `subject` or `baseline`, lacks the layer, and does not have it in a convolution.

    Norms without statistics that are no batch norms are not told by every format, norms without any tensor by none
    but those with code: they lack nothing. Nor does a layer whose partner may be one whose tensors were not read.
    """
    lacking = _part(comparison, side)
    if not _is_told(layer):
        return False
    if layer.kind is NormKind.FROZEN_BATCH and lacking.carrier.has_code:
        return False  # its forward() is a product and a sum, and so it stands in the code
    if comparison.folds is not None and comparison.folds.folded == side:
        return layer.name not in {fold.layer for fold in comparison.folds.folds} | set(comparison.folds.unfound)
    if any(_may_be(other, layer) for other in _alone(comparison, side)):
        return False
    return not lacking.folded or bool(lacking.layers)


def _is_told(layer: NormLayer) -> bool:
    """Graphs write a gamma of 1 and a beta of 0 where a layer has neither, and its state dict nothing at all."""
    if layer.running_mean is not None or layer.running_var is not None:
        return True
    unread = layer.weight is not None and layer.gamma is None
    named = layer.num_batches_tracked is not None or not has_identity_affine(layer) or unread
    return layer.kind.is_batch and named


def _may_be(other: NormLayer, layer: NormLayer) -> bool:
    unread = not any(tensor.values is not None for tensor in other.tensors)
    return unread and family(other.kind) == family(layer.kind) and other.channels in (None, layer.channels)


def _alone(comparison: Comparison, side: str) -> tuple[NormLayer, ...]:
    matching = comparison.matching
    return matching.only_subject if side == "subject" else matching.only_baseline


def _part(comparison: Comparison, side: str) -> Part:
    return comparison.subject_part if side == "subject" else comparison.baseline_part
