"""Norm layers among pickled modules: recognised by class name and attributes, never by importing the class.

The attributes are those of torch.nn (`_NormBase`, `GroupNorm`, `LayerNorm`, `RMSNorm`, PyTorch 0.1 to 2.13), which its
subclasses inherit (timm, apex, detectron2, quantized and fused ones); torchvision's and DETR's frozen batch norms keep
all four tensors in `_buffers`.
"""

from __future__ import annotations

from collections.abc import Callable

from bnaudit.description import CUMULATIVE, Cumulative, Evidence, NormKind, NormLayer, StoredTensor
from bnaudit.reading.checkpoints.norm_names import ROLES
from bnaudit.reading.modules.norm_classes import STATISTICAL, kind_of_class
from bnaudit.reading.modules.objects import PickledModule

ReadTensor = Callable[[str, object], StoredTensor]
"""(stored name, the pickled object) -> the tensor."""

_EPSILONS = ("eps", "epsilon", "variance_epsilon")


def norm_kind(module: PickledModule) -> NormKind | None:
    """The kind of norm that a module is, UNKNOWN when its class name does not settle it, None: no norm layer."""
    spoken = kind_of_class(module.class_name)
    if _is_statistical(module, spoken):
        return spoken if spoken in STATISTICAL else NormKind.UNKNOWN
    if module.whole("num_groups") is not None and module.whole("num_channels") is not None:
        return NormKind.GROUP
    if module.attributes.get("normalized_shape") is not None and module.number(*_EPSILONS) is not None:
        without_mean = spoken is NormKind.RMS or (spoken is None and not module.registers("bias"))
        return NormKind.RMS if without_mean else NormKind.LAYER
    if spoken in (NormKind.GROUP, NormKind.LAYER, NormKind.RMS) and _normalizes(module):
        return spoken
    return None


def _is_statistical(module: PickledModule, spoken: NormKind | None) -> bool:
    """Whether it is batch or instance norm or something made like them."""
    buffers = [module.tensor_object(key) is not None for key in ("running_mean", "running_var")]
    if all(buffers):
        return True
    if any(buffers) and not module.class_name.startswith("torch.") and _keeps_others(module):
        return False
    keeps_contract = module.flag("track_running_stats") is not None and "num_features" in module.attributes
    if keeps_contract and module.number(*_EPSILONS) is not None:
        return True
    # Before 0.4 there was no track_running_stats; a frozen one has no more than its buffers.
    named = spoken in STATISTICAL and (module.registers("running_mean") or module.registers("running_var"))
    return named and ("num_features" in module.attributes or any(buffers))


def _keeps_others(module: PickledModule) -> bool:
    """Whether another statistic or parameter stands in for the missing one (`running_std`, EvoNorm's `v`)."""
    keys = (
        key for section in ("_parameters", "_buffers") for key, value in module.section(section) if value is not None
    )
    return any(isinstance(key, str) and key not in ROLES and not key.startswith(("weight", "bias")) for key in keys)


def _normalizes(module: PickledModule) -> bool:
    """Whether a class that only calls itself a norm has what a norm needs and is no container of one."""
    scaled = any(module.registers(key) for key in ("weight", "gamma", "scale"))
    has_children = any(child is not None for _, child in module.section("_modules"))
    return (scaled or module.number(*_EPSILONS) is not None) and not has_children


def norm_layer(path: str, module: PickledModule, read: ReadTensor) -> NormLayer | None:
    """The module at `path` as a norm layer with its tensors, None when it is none."""
    kind = norm_kind(module)
    if kind is None:
        return None
    return NormLayer(
        name=path,
        kind=kind,
        evidence=Evidence.CLASS,
        class_name=module.class_name or None,
        declared_channels=_channels(module),
        eps=module.number(*_EPSILONS),
        momentum=_momentum(module),
        affine=_affine(module),
        tracks_statistics=module.flag("track_running_stats"),
        training=module.training,
        graph_training=False if module.is_quantized and kind in STATISTICAL else None,
        hooked=module.hooked,
        # A fused ConvBn2d has gamma and beta beside the weight of its convolution.
        weight=_tensor(path, module, ("gamma", "weight"), read),
        bias=_tensor(path, module, ("beta", "bias"), read),
        running_mean=_tensor(path, module, ("running_mean",), read),
        running_var=_tensor(path, module, ("running_var",), read),
        num_batches_tracked=_tensor(path, module, ("num_batches_tracked",), read),
    )


def _tensor(path: str, module: PickledModule, keys: tuple[str, ...], read: ReadTensor) -> StoredTensor | None:
    """The first of these parameters and buffers that is there."""
    for key in keys:
        value = module.tensor_object(key)
        if value is not None:
            return read(f"{path}.{key}" if path else key, value)
    return None


def _channels(module: PickledModule) -> int | None:
    """num_features; a lazy layer that has not seen its input says 0."""
    return module.whole("num_features") or module.whole("num_channels") or None


def _momentum(module: PickledModule) -> float | Cumulative | None:
    if "momentum" in module.attributes and module.attributes.get("momentum") is None:
        return CUMULATIVE
    return module.number("momentum")


def _affine(module: PickledModule) -> bool | None:
    affine = module.flag("affine")
    return affine if affine is not None else module.flag("elementwise_affine")
