"""Pickled torch.nn.Modules: the tree of a whole model without importing or running any of its classes."""

from __future__ import annotations

from bnaudit.description import Carrier, Gap, NormLayer, Part
from bnaudit.reading.checkpoints.tally import PART, Tally
from bnaudit.reading.modules.frozen_blocks import with_blocks
from bnaudit.reading.modules.hidden_modules import hidden_modules
from bnaudit.reading.modules.mode_modules import mode_dependent
from bnaudit.reading.modules.norm_modules import norm_layer
from bnaudit.reading.modules.objects import PickledModule, as_module, mapping_of
from bnaudit.reading.modules.tensors import ModuleTensors, Tensors, census, identities, trainable_and_frozen
from bnaudit.reading.modules.walk import Located, Walker
from bnaudit.reading.pickles.stand_ins import Call

_INNER = ("module", "_orig_mod", "_fsdp_wrapped_module")
"""Under which name wrappers register the model."""
_PLAIN_WRAPPERS = ("OptimizedModule", "FullyShardedDataParallel")
_MOST_WRAPPERS = 16


def is_module(value: object) -> bool:
    """Whether a pickled object is a torch.nn.Module (also compiled, traced by torch.fx, wrapped)."""
    return as_module(value) is not None


def describe_module(
    root: Call, tensors: Tensors, name: str, tally: Tally | None = None
) -> tuple[Part, tuple[Gap, ...]]:
    """The model `root` as the part called `name`, and what of it could not be read.

    Layers carry their dotted paths below the root, in the order of `named_modules()`; modules that occur twice are
    listed once. Reads the values of norm layers' tensors and of no others. `root` is a module (`is_module`).

    Raises CapExceededError when there is more than the tally allows.
    """
    module = as_module(root)
    if module is None:
        raise TypeError("describe_module was given an object that is no module")
    tally = tally if tally is not None else Tally()
    tally.objects(PART)
    walker, reader = Walker(tally=tally), ModuleTensors(tensors)
    located = walker.walk("", module)
    layers, others = _split(located, reader, tally)
    layers = with_blocks(layers, located, reader)
    hidden, hidden_walker = hidden_modules(located, tally)
    wrappers, averaged_over = _wrappers(module, reader)
    trainable, frozen = trainable_and_frozen(others, reader)
    counted = census(located, reader)
    part = Part(
        name=name,
        carrier=Carrier.MODULE,
        layers=tuple(layers),
        mode_dependent=tuple(found for found in (mode_dependent(*entry) for entry in others) if found is not None),
        hidden=hidden,
        wrappers=wrappers,
        averaged_over=averaged_over,
        tensors=counted.tensors,
        floating_dtypes=counted.floating_dtypes,
        trainable=trainable,
        frozen=frozen,
        modules=tuple(path for path, _ in located),
    )
    return part, (*walker.gaps, *hidden_walker.gaps, *reader.gaps)


def tensor_identities(root: Call, tensors: Tensors, tally: Tally) -> frozenset[object]:
    """The identities of all parameters and buffers of the model `root` that have one.

    Raises CapExceededError when there are more modules than the tally allows.
    """
    module = as_module(root)
    located = Walker(tally=tally).walk("", module) if module is not None else []
    return identities(located, ModuleTensors(tensors))


def _split(located: list[Located], reader: ModuleTensors, tally: Tally) -> tuple[list[NormLayer], list[Located]]:
    """The norm layers, and the modules that are none."""
    layers, others = [], []
    for path, module in located:
        layer = norm_layer(path, module, reader.read)
        if layer is None:
            others.append(Located(path, module))
        else:
            tally.layer()
            layers.append(layer)
    return layers, others


def _wrappers(module: PickledModule, reader: ModuleTensors) -> tuple[tuple[str, ...], int | None]:
    """The wrappers around the model, outermost first, and over how many models it is an average."""
    names: list[str] = []
    averaged_over = None
    inner: PickledModule | None = module
    while inner is not None and len(names) < _MOST_WRAPPERS:
        averages = inner.registers("n_averaged")
        wrapper = "AveragedModel" if averages else inner.simple_name
        if not averages and not wrapper.endswith("DataParallel") and wrapper not in _PLAIN_WRAPPERS:
            break
        names.append(wrapper)
        averaged_over = reader.count(inner.tensor_object("n_averaged")) if averages else averaged_over
        inner = _wrapped(inner)
    return tuple(names), averaged_over


def _wrapped(wrapper: PickledModule) -> PickledModule | None:
    children = mapping_of(wrapper.attributes.get("_modules"))
    if children is None:
        return None
    return next((as_module(children.get(key)) for key in _INNER if key in children), None)
