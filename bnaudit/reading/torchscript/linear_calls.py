"""The convolutions and linear layers that TorchScript code calls, in the order in which it calls them."""

from __future__ import annotations

from bnaudit.comparison import LinearLayer
from bnaudit.description import Part
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.linear_tensors import placed
from bnaudit.reading.torchscript.archive import ScriptArchive
from bnaudit.reading.torchscript.part import stored_constants
from bnaudit.reading.torchscript.sites import Reached, Site
from bnaudit.reading.torchscript.states import name_states
from bnaudit.reading.torchscript.values import Items, Known, StoredValue

_SLOTS = ("running_mean", "running_var", "weight", "bias")


def linear_calls(source: ByteSource, part: Part) -> list[LinearLayer]:
    """The layers of the archive, whose part is `part`. After freezing they are called by their constants.

    No weight is read. Raises UnreadableError.
    """
    archive = ScriptArchive(source)
    tree = archive.tree("data")
    name_states(tree.objects, archive.library)
    reached = Reached(archive.library, tree.objects, stored_constants(archive), source.caps.graph_nodes)
    norm_of = {tensor.name: layer.name for layer in part.layers for tensor in layer.tensors}
    marks: dict[str, LinearLayer | str] = {}
    for site in reached.sites:
        if site.call.signature.role == "norm":
            names = (norm_of.get(value.name) for slot in _SLOTS if (value := site.stored(slot)) is not None)
            name = next((name for name in names if name is not None), None)
            if name is not None:
                marks.setdefault(f"norm {name}", name)
        elif site.call.signature.role in ("convolution", "linear"):
            weight = site.stored("weight")
            if weight is not None and len(weight.ref.shape) > 1 and "float" in weight.ref.dtype:
                marks.setdefault(weight.name, _layer(site, weight))
    return list(placed(list(marks.values())))


def _layer(site: Site, weight: StoredValue) -> LinearLayer:
    bias = site.stored("bias")
    is_linear = site.call.signature.role == "linear"
    return LinearLayer(
        name=weight.name if weight.owner is None else weight.owner.path,
        operator="linear" if is_linear else _convolution(site),
        weight=weight.ref,
        bias=bias.ref if bias is not None else None,
        groups=1 if is_linear else _groups(site),
        padded=False if is_linear else _padded(site),
    )


def _convolution(site: Site) -> str | None:
    if "transpose" in site.call.operator:
        return "transposed conv"
    transposed = site.known("transposed")
    if "transposed" not in site.call.signature.arguments:
        return "conv"
    if transposed is None:
        return None
    return "transposed conv" if transposed.value else "conv"


def _groups(site: Site) -> int | None:
    """1, its default, is not printed."""
    if "groups" not in site.call.arguments:
        return 1
    number = site.number("groups")
    return int(number) if number is not None else None


def _padded(site: Site) -> bool | None:
    padding = site.call.arguments.get("padding")
    if padding is None:
        return False
    if isinstance(padding, Known):
        return padding.value not in ("valid", 0)
    if not isinstance(padding, Items) or not all(isinstance(item, Known) for item in padding.values):
        return None
    return any(item.value for item in padding.values if isinstance(item, Known))
