"""The convolutions and linear layers of a pickled module: kind, groups and padding are attributes, topology is not."""

from __future__ import annotations

from bnaudit.comparison import LinearLayer
from bnaudit.description import Part
from bnaudit.reading.checkpoints.linear_tensors import placed
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.modules.objects import PickledModule, as_module
from bnaudit.reading.modules.tensors import ModuleTensors, Tensors
from bnaudit.reading.modules.walk import Walker
from bnaudit.reading.pickles.stand_ins import Call


def linear_modules(root: Call, tensors: Tensors, part: Part, tally: Tally) -> list[LinearLayer]:
    """The layers of the model `root`, which is `part`, in the order of `named_modules()`. Nothing is read.

    Raises CapExceededError when there are more modules than the tally allows.
    """
    module = as_module(root)
    located = Walker(tally=tally).walk("", module) if module is not None else []
    norms = {layer.name for layer in part.layers}
    reader = ModuleTensors(tensors)
    marks: list[LinearLayer | str] = []
    for path, each in located:
        if path in norms:
            marks.append(path)
        else:
            layer = _layer(path, each, reader)
            if layer is not None:
                marks.append(layer)
    return list(placed(marks))


def _layer(path: str, module: PickledModule, reader: ModuleTensors) -> LinearLayer | None:
    weight = reader.ref(module.tensor_object("weight"))
    if weight is None or "float" not in weight.dtype or len(weight.shape) < 2:
        return None
    transposed = module.flag("transposed")
    if transposed is None and len(weight.shape) > 2:
        return None
    return LinearLayer(
        name=path,
        operator="linear" if transposed is None else "transposed conv" if transposed else "conv",
        weight=weight,
        bias=reader.ref(module.tensor_object("bias")),
        groups=module.whole("groups") if transposed is not None else 1,
        padded=_padded(module.attributes.get("padding")) if transposed is not None else False,
    )


def _padded(padding: object) -> bool | None:
    if isinstance(padding, str):
        return padding != "valid"
    sizes = padding if isinstance(padding, (tuple, list)) else (padding,)
    return any(sizes) if all(isinstance(size, int) for size in sizes) else None
