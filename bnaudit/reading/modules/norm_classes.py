"""Which norm the name of a Python class speaks of."""

from __future__ import annotations

from bnaudit.description import NormKind

STATISTICAL = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH, NormKind.INSTANCE)
"""The kinds that may hold running statistics."""

# T5's LayerNorm subtracts no mean (Raffel et al. 2020); ABN and its relatives are inplace_abn's activated batch norm.
_BY_NAME = {"t5layernorm": NormKind.RMS, "abn": NormKind.BATCH, "inplaceabn": NormKind.BATCH}
_BATCH_WORDS = ("batch", "bnrelu", "convbn", "linearbn")
"""Beside the word itself: PyTorch's fused classes (`BNReLU2d`, `ConvBn2d`)."""
_OTHER_WORDS = (
    ("rmsnorm", NormKind.RMS),
    ("groupnorm", NormKind.GROUP),
    ("layernorm", NormKind.LAYER),
)


def kind_of_class(class_name: str) -> NormKind | None:
    """The norm that a class name, qualified or not, speaks of; None: of none, or of several.

    `batch` alone is enough (`MyBatchStandardizer`), so that a name is no proof of a norm layer: ask for its attributes.
    """
    name = class_name.rpartition(".")[2].lower().replace("_", "")
    if name in _BY_NAME:
        return _BY_NAME[name]
    batch, instance = any(word in name for word in _BATCH_WORDS), "instance" in name
    if "sync" in name and (batch or "bn" in name):
        return NormKind.SYNC_BATCH
    if "frozen" in name and (batch or "bn" in name):
        return NormKind.FROZEN_BATCH
    if batch or instance:
        return None if batch and instance else NormKind.BATCH if batch else NormKind.INSTANCE
    return next((kind for word, kind in _OTHER_WORDS if word in name), None)
