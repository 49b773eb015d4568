"""Norm layers of a TorchScript archive: what a group of calls and the module around them say together."""

from __future__ import annotations

from collections.abc import Container

from bnaudit.description import CUMULATIVE, Cumulative, Evidence, NormKind, NormLayer, StoredTensor
from bnaudit.reading.modules.norm_classes import STATISTICAL
from bnaudit.reading.tensors.tensor_refs import TensorRef, stored
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.norm_groups import SLOTS, NormGroup
from bnaudit.reading.torchscript.operators import EPSILON
from bnaudit.reading.torchscript.settings import flag, number, setting, whole
from bnaudit.reading.torchscript.sites import Site
from bnaudit.reading.torchscript.values import ONE_SAMPLE

_ROLES = {
    "weight": ("weight", "gamma"),
    "bias": ("bias", "beta"),
    "running_mean": ("running_mean",),
    "running_var": ("running_var",),
    "num_batches_tracked": ("num_batches_tracked",),
}
"""Field of NormLayer -> attributes of a norm module that fill it when the code does not say otherwise."""


def norm_layer(group: NormGroup, library: CodeLibrary, *, followed: bool) -> NormLayer:
    """The layer with the values of its tensors; those that cannot be read become gaps of the library.

    `followed`: the code of the module was followed, so that a norm without a call is spelled out in arithmetic.
    """
    kind = _kind(group)
    graph_training = _graph_training(group, kind)
    tensors = {slot: _read(name, ref, library) for slot, (name, ref) in _tensors(group).items()}
    return NormLayer(
        name=group.name,
        kind=kind,
        evidence=Evidence.CLASS if group.is_module and group.kind is not None else Evidence.OPERATOR,
        class_name=group.owner.class_name if group.is_module and group.owner is not None else group.operator,
        declared_channels=_channels(group, library),
        eps=_epsilon(group, kind, library),
        momentum=_momentum(group, kind, graph_training, library),
        affine=_affine(group, tensors, library),
        tracks_statistics=_tracks(group, kind, graph_training, library),
        training=flag(group.owner, "training", library),
        graph_training=graph_training,
        spelled_out=followed and not group.sites,
        weight=tensors.get("weight"),
        bias=tensors.get("bias"),
        running_mean=tensors.get("running_mean"),
        running_var=tensors.get("running_var"),
        num_batches_tracked=tensors.get("num_batches_tracked"),
    )


def _read(name: str, ref: TensorRef, library: CodeLibrary) -> StoredTensor:
    tensor, why = stored(name, ref)
    if why:
        library.report(name, why, hides_norms=False)
    return tensor


def _tensors(group: NormGroup) -> dict[str, tuple[str, TensorRef]]:
    """What the calls use, else what the module holds under the usual names."""
    found: dict[str, tuple[str, TensorRef]] = {}
    for slot in SLOTS:
        value = next((value for site in group.sites if (value := site.stored(slot)) is not None), None)
        if value is not None:
            found[slot] = (value.name, value.ref)
    if group.is_module and group.owner is not None:
        for slot, attributes in _ROLES.items():
            for attribute in attributes:
                ref = group.owner.tensor(attribute)
                if ref is not None:
                    found.setdefault(slot, (group.owner.name_of(attribute), ref))
    return found


def _is_per_sample(site: Site) -> bool:
    return site.call.arguments.get("input") is ONE_SAMPLE


def _kind(group: NormGroup) -> NormKind:
    """The operator decides; the class name tells synchronized and frozen batch norm from plain ones."""
    if not group.sites:
        return group.kind or NormKind.UNKNOWN
    kind = group.sites[0].call.signature.kind
    if kind is not NormKind.BATCH:
        return kind
    if all(_is_per_sample(site) for site in group.sites):
        return NormKind.INSTANCE
    return group.kind if group.kind in (NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH) and group.kind else kind


def _graph_training(group: NormGroup, kind: NormKind) -> bool | None:
    if kind not in STATISTICAL or not group.sites:
        return None
    if kind is NormKind.INSTANCE and not any(site.stored("running_mean") for site in group.sites):
        return None
    fixed = [site.call.signature.fixed_training for site in group.sites]
    flags = [
        site.fixed_flag("training") if known is None else known for site, known in zip(group.sites, fixed, strict=True)
    ]
    if True in flags:
        return True
    return None if None in flags else False


def _tracks(group: NormGroup, kind: NormKind, graph_training: bool | None, library: CodeLibrary) -> bool | None:
    """Only a call in training form shows that the statistics are updated; PyTorch's instance norm uses stored ones in
    eval mode only when it tracks."""
    said = flag(group.owner, "track_running_stats", library) if group.is_module else None
    if said is not None or kind not in STATISTICAL or not group.sites:
        return said
    if any(site.stored("running_mean") is not None for site in group.sites):
        return True if graph_training or kind is NormKind.INSTANCE else None
    return False if all(site.is_absent("running_mean") for site in group.sites) else None


def _affine(group: NormGroup, tensors: Container[str], library: CodeLibrary) -> bool | None:
    if group.is_module:
        for name in ("affine", "elementwise_affine"):
            said = flag(group.owner, name, library)
            if said is not None:
                return said
    if "weight" in tensors:
        return True
    return False if group.sites and all(site.is_absent("weight") for site in group.sites) else None


def _channels(group: NormGroup, library: CodeLibrary) -> int | None:
    owner = group.owner if group.is_module else None
    return whole(owner, "num_features", library) or whole(owner, "num_channels", library)


def _epsilon(group: NormGroup, kind: NormKind, library: CodeLibrary) -> float | None:
    """What the call says counts before what the module says."""
    said = next((eps for site in group.sites if (eps := site.number("eps")) is not None), None)
    if said is not None:
        return said
    if group.sites and kind in (NormKind.LAYER, NormKind.GROUP) and "eps" not in group.sites[0].call.arguments:
        return EPSILON
    owner = group.owner if group.is_module else None
    names = ("eps", "epsilon", "variance_epsilon")
    return next((eps for name in names if (eps := number(owner, name, library)) is not None), None)


def _momentum(
    group: NormGroup, kind: NormKind, graph_training: bool | None, library: CodeLibrary
) -> float | Cumulative | None:
    """In eval mode PyTorch calls a cumulative batch norm with momentum 0: that says nothing."""
    if kind not in STATISTICAL:
        return None
    if group.is_module and group.owner is not None:
        there, value = setting(group.owner, "momentum", library)
        if there:
            return CUMULATIVE if value is None else number(group.owner, "momentum", library)
    said = next((value for site in group.sites if (value := site.number("momentum")) is not None), None)
    return None if said == 0 and not graph_training else said
