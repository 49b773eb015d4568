"""How the arithmetic of other norms differs from batch norm's, one sentence each."""

from __future__ import annotations

from bnaudit.description import NormKind

_STATELESS = "in both modes. It keeps no statistics, and neighbours do not matter. z is known only for a given sample."
_DIFFERENCES = {
    NormKind.GROUP: f"A group norm takes both over the channels of a group, and one sample, {_STATELESS}",
    NormKind.LAYER: f"A layer norm takes both over the last dimensions of one sample or position, {_STATELESS}",
    NormKind.RMS: f"An RMS norm subtracts no mean, and takes its root over the last dimensions, {_STATELESS}",
    NormKind.INSTANCE: f"An instance norm takes both over the positions of one channel of one sample, {_STATELESS}",
}
_TRACKING_INSTANCE = (
    "An instance norm that tracks statistics takes each sample's own mean and variance in training and the stored ones"
    " in eval, where the arithmetic is batch norm's."
)
_UNKNOWN = (
    "The artifact has no statistics of this layer, and does not say what kind of norm it is. A batch norm without them"
    " cannot compute in eval; group, layer and instance norms take both from the sample. --model tells which it is."
)
_NO_STATISTICS = "Its statistics are not in the artifact: z is known only for a given batch."


def formula(kind: NormKind, tracks: bool | None) -> str:
    """As it is printed above the numbers."""
    if kind is NormKind.RMS:
        return "y = z · gamma, z = x / √(mean of x² + epsilon)"
    if kind.is_batch or tracks:
        return "y = (x − mean) / √(variance + epsilon) · gamma + beta"
    return "y = z · gamma + beta,\n  z = (x − mean) / √(variance + epsilon)"


def difference(kind: NormKind, tracks: bool | None) -> str:
    """ "" for batch norms whose statistics are there."""
    if kind is NormKind.INSTANCE and tracks:
        return _TRACKING_INSTANCE
    if kind is NormKind.UNKNOWN:
        return "" if tracks else _UNKNOWN
    if kind.is_batch:
        return _NO_STATISTICS if tracks is False else ""
    return _DIFFERENCES.get(kind, "")
