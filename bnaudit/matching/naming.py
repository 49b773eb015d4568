"""What a layer may be called, apart from wrappers and from how an exporter writes a path."""

from __future__ import annotations

import re
from functools import lru_cache

from bnaudit.description import NormLayer
from bnaudit.layer_names import strip_wrappers
from bnaudit.matching.beginnings import shared_beginning

_OPERATOR = re.compile(r"^(BatchNormalization|InstanceNormalization|LayerNormalization|FusedBatchNorm\w*)(_\d+)?$")
_COUNTED = re.compile(r"^(?:\w+Normalization|node|n|op)?_?\d*$", re.IGNORECASE)


@lru_cache(maxsize=32768)
def plain_name(name: str) -> str:
    """The dotted module path that a name stands for.

    `module.bn1` -> `bn1`; PyTorch's ONNX scopes `/layer1/layer1.0/bn1/BatchNormalization` -> `layer1.0.bn1`.
    """
    if "/" not in name:
        return strip_wrappers(name)
    pieces: list[str] = []
    for piece in filter(None, name.split("/")):
        if pieces and piece.startswith(f"{pieces[-1]}."):
            pieces[-1] = piece
        else:
            pieces.append(piece)
    if len(pieces) > 1 and _OPERATOR.match(pieces[-1]):
        pieces.pop()
    return strip_wrappers(".".join(pieces))


def is_counted(name: str) -> bool:
    """Whether an exporter made the name up by counting (`BatchNormalization_12`, `45`): it says nothing."""
    return _COUNTED.match(name) is not None


def stored_name(layer: NormLayer) -> str:
    """The path that the layer's tensors are stored under: `base_net.0.1` of `base_net.0.1.running_mean`; "": none."""
    names = [tensor.name for tensor in layer.tensors]
    if not names:
        return ""
    # The first and the last in order of the alphabet differ earliest.
    first, last = min(names), max(names)
    shared = first[: shared_beginning(first, last)]
    owner = shared.rpartition(".")[0] if "." in shared else shared.rstrip("_/") if len(names) > 1 else ""
    return plain_name(owner)
