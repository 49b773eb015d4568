"""What a layer may be called, apart from wrappers and from how an exporter writes a path."""

from __future__ import annotations

import re
from functools import lru_cache

from bnaudit.description import Evidence, NormLayer
from bnaudit.layer_names import strip_wrappers
from bnaudit.matching.beginnings import shared_beginning

_OPERATOR = re.compile(r"^(BatchNormalization|InstanceNormalization|LayerNormalization|FusedBatchNorm\w*)(_\d+)?$")
_COUNTED = re.compile(r"^(?:\w*(?:Normalization|BatchNorm\w*)(?:_?\d+)?|(?:node|op)_?\d+)$")
_LEAVES = frozenset({"weight", "bias", "running_mean", "running_var", "num_batches_tracked"})


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


def is_counted(layer: NormLayer) -> bool:
    """Whether an exporter made the layer's name up by counting (`BatchNormalization_12`, `45`): it says nothing.

    Outside graphs and code a number is a name: that of a layer in a Sequential.
    """
    name = plain_name(layer.name)
    return _COUNTED.match(name) is not None or (name.isdigit() and layer.evidence is Evidence.OPERATOR)


def stored_name(layer: NormLayer) -> str:
    """The path that the layer's tensors are stored under: `base_net.0.1` of `base_net.0.1.running_mean`; "": none."""
    names = [tensor.name for tensor in layer.tensors]
    owners = {owner for owner, _, leaf in (name.rpartition(".") for name in names) if leaf in _LEAVES}
    if len(owners) == 1:
        return plain_name(owners.pop())
    if len(names) < 2:
        return ""
    # The first and the last in order of the alphabet differ earliest.
    first, last = min(names), max(names)
    shared = first[: shared_beginning(first, last)]
    return plain_name(shared.rpartition(".")[0] if "." in shared else shared.rstrip("_/"))
