"""What two layers must have in common before order or values may pair them."""

from __future__ import annotations

from bnaudit.description import NormKind, NormLayer

Signature = tuple[str, int, bool, bool]


def signature(layer: NormLayer) -> Signature | None:
    """Kind family, channels, affine or not, statistics or not; None when the channels are not known.

    The batch counter is left out: graphs have none.
    """
    channels = layer.channels
    if channels is None:
        return None
    affine = layer.weight is not None or layer.bias is not None
    return family(layer.kind), channels, affine, layer.running_mean is not None or layer.running_var is not None


def computed(layer: NormLayer) -> Signature | None:
    """The same by what it computes in eval mode: instance norm with statistics is batch norm there.

    Tensors alone do not tell the two apart.
    """
    own = signature(layer)
    return ("batch", *own[1:]) if own is not None and own[-1] and layer.kind is NormKind.INSTANCE else own


def family(kind: NormKind) -> str:
    """`batch` for batch norm in any of its forms: in eval mode all of them compute the same."""
    return "batch" if kind.is_batch else kind.value
