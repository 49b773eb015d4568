"""Normalization calls of an exported program as norm layers.

Argument names are those of PyTorch's operator schemas (aten/src/ATen/native/native_functions.yaml, torch 2.13).
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.description import Evidence, NormKind, NormLayer, StoredTensor
from bnaudit.reading.exported.graph import Node
from bnaudit.reading.exported.modules import Module, module_of
from bnaudit.reading.exported.state import ProgramState
from bnaudit.reading.exported.values import InputView, Origins
from bnaudit.records import replace

_FLAG, _ALWAYS, _NEVER, _NO_MODE = "flag", "always", "never", "no mode"
_BATCH_NORMS = {
    "batch_norm": _FLAG,
    "native_batch_norm": _FLAG,
    "_native_batch_norm_legit": _FLAG,
    "_native_batch_norm_legit_functional": _FLAG,
    "_native_batch_norm_legit_no_training": _NEVER,
    "_batch_norm_with_update": _ALWAYS,
    "_batch_norm_with_update_functional": _ALWAYS,
    "_batch_norm_no_update": _NEVER,
    "_batch_norm_impl_index": _FLAG,
    "cudnn_batch_norm": _FLAG,
    "miopen_batch_norm": _FLAG,
    "quantized_batch_norm": _NEVER,
}
_OTHER_NORMS = {
    "instance_norm": NormKind.INSTANCE,
    "group_norm": NormKind.GROUP,
    "native_group_norm": NormKind.GROUP,
    "layer_norm": NormKind.LAYER,
    "native_layer_norm": NormKind.LAYER,
    "rms_norm": NormKind.RMS,
    "_fused_rms_norm": NormKind.RMS,
}
_BATCH_CLASSES = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH)
_STATE_ENDINGS = ("running_mean", "running_var", "weight", "bias")


class _Operator(NamedTuple):
    kind: NormKind
    mode: str


OPERATORS = {f"aten.{name}": _Operator(NormKind.BATCH, mode) for name, mode in _BATCH_NORMS.items()} | {
    f"aten.{name}": _Operator(kind, _NO_MODE) for name, kind in _OTHER_NORMS.items()
}
"""Every operator that normalizes."""


class NormCalls:
    """Collects the norm layers of one program in execution order; a layer that is called again is one layer."""

    def __init__(self, state: ProgramState, origins: Origins) -> None:
        self._state = state
        self._origins = origins
        self._layers: dict[str, NormLayer] = {}
        self._modules: dict[str, Module] = {}
        self._covered: set[str] = set()

    def look_at(self, node: Node) -> None:
        """Take a node in: a normalization call becomes a layer, the class of its module is remembered."""
        module = module_of(node)
        operator = OPERATORS.get(node.op)
        if operator is not None:
            layer = self._layer(node, operator, module)
            self._cover(module.path)
            self._cover(layer.name)
            self._add(layer, node)
        elif module.norm_kind is not None and module.path not in self._modules:
            self._modules[module.path] = module

    def layers(self) -> tuple[NormLayer, ...]:
        """Layers in execution order, then those whose class says that they are norms and that call no such operator."""
        spelled = [self._spelled_out(module) for path, module in self._modules.items() if path not in self._covered]
        return (*self._layers.values(), *(layer for layer in spelled if layer.tensors))

    def _cover(self, path: str) -> None:
        """Remember that a module, and whatever it stands in, calls an operator that normalizes."""
        while path not in self._covered:
            self._covered.add(path)
            path = path.rpartition(".")[0]

    def _add(self, layer: NormLayer, node: Node) -> None:
        known = self._layers.get(layer.name)
        if known is None:
            self._layers[layer.name] = layer
        elif [t.name for t in known.tensors] == [t.name for t in layer.tensors] and known.kind is layer.kind:
            if layer.graph_training:
                self._layers[layer.name] = replace(known, graph_training=True)
        else:
            name = f"{layer.name}.{node.name}" if layer.name else node.name
            self._layers[name] = replace(layer, name=name)

    def _layer(self, node: Node, operator: _Operator, module: Module) -> NormLayer:
        named = {
            slot: self._origins.stored_name(node.scope, node.tensor(*arguments))
            for slot, arguments in (
                ("weight", ("weight",)),
                ("bias", ("bias",)),
                ("running_mean", ("running_mean", "mean")),
                ("running_var", ("running_var", "var")),
            )
        }
        view = InputView(node, self._origins, module.norm_kind in _BATCH_CLASSES)
        name = _layer_name(node, module, named)
        kind = _kind(operator, module, view)
        tracks = _tracks(node, operator, kind)
        stored = self._with_unused(name, kind, named)
        return NormLayer(
            name=name,
            kind=kind,
            evidence=Evidence.OPERATOR,
            class_name=module.class_name if module.norm_kind is not None else f"torch.ops.{node.op}",
            declared_channels=_channels(node, kind, view),
            eps=node.number("eps", "epsilon"),
            momentum=node.number("momentum", "exponential_average_factor"),
            affine=node.tensor("weight") is not None,
            tracks_statistics=tracks,
            graph_training=_graph_training(node, operator, kind, tracks),
            statistics_from_input=self._from_input(node) if tracks else None,
            weight=self._state.stored(stored["weight"]),
            bias=self._state.stored(stored["bias"]),
            running_mean=self._statistic(node, stored, "running_mean", "mean"),
            running_var=self._statistic(node, stored, "running_var", "var"),
            num_batches_tracked=self._state.stored(stored.get("num_batches_tracked")),
        )

    def _statistic(self, node: Node, stored: dict[str, str | None], slot: str, other: str) -> StoredTensor | None:
        """A running statistic: stored, or computed by the graph, or not there."""
        value = node.tensor(slot, other)
        if stored[slot] is not None or value is None:
            return self._state.stored(stored[slot])
        return self._state.computed(value, node.scope)

    def _from_input(self, node: Node) -> bool:
        """Whether the mean that the call uses is computed from what the user passes in."""
        value = node.tensor("running_mean", "mean")
        if value is None or self._origins.stored_name(node.scope, value) is not None:
            return False
        return not self._origins.is_from_state_alone(node.scope, value)

    def _with_unused(self, name: str, kind: NormKind, named: dict[str, str | None]) -> dict[str, str | None]:
        """Add the buffers that are stored under the layer's name though the call does not read them."""
        if not (kind.is_batch or kind is NormKind.INSTANCE):
            return named
        prefix = f"{name}." if name else ""
        slots = ("running_mean", "running_var", "num_batches_tracked")
        found = {slot: f"{prefix}{slot}" for slot in slots if f"{prefix}{slot}" in self._state}
        return named | {slot: fqn for slot, fqn in found.items() if named.get(slot) is None}

    def _spelled_out(self, module: Module) -> NormLayer:
        prefix = f"{module.path}." if module.path else ""
        slots = (*_STATE_ENDINGS, "num_batches_tracked")
        stored = {slot: f"{prefix}{slot}" for slot in slots if self._is_small(f"{prefix}{slot}")}
        kind = module.norm_kind or NormKind.UNKNOWN
        return NormLayer(
            name=module.path,
            kind=kind,
            evidence=Evidence.CLASS,
            class_name=module.class_name,
            affine="weight" in stored,
            tracks_statistics="running_mean" in stored if kind.is_batch else None,
            spelled_out=True,
            weight=self._state.stored(stored.get("weight")),
            bias=self._state.stored(stored.get("bias")),
            running_mean=self._state.stored(stored.get("running_mean")),
            running_var=self._state.stored(stored.get("running_var")),
            num_batches_tracked=self._state.stored(stored.get("num_batches_tracked")),
        )

    def _is_small(self, name: str) -> bool:
        """A class name alone proves nothing: the tensors of a norm have one axis, its counter none."""
        return name in self._state and len(self._state.shape(name)) <= 1


def _kind(operator: _Operator, module: Module, view: InputView) -> NormKind:
    if operator.kind is not NormKind.BATCH:
        return operator.kind
    if view.is_per_sample:
        return NormKind.INSTANCE
    return module.norm_kind if module.norm_kind in _BATCH_CLASSES and module.norm_kind else NormKind.BATCH


def _tracks(node: Node, operator: _Operator, kind: NormKind) -> bool:
    if not (kind.is_batch or kind is NormKind.INSTANCE):
        return False
    return node.tensor("running_mean", "mean") is not None


def _graph_training(node: Node, operator: _Operator, kind: NormKind, tracks: bool) -> bool | None:
    """Instance norm without stored statistics has no mode; with them, reading the input instead is training mode."""
    if kind is NormKind.INSTANCE and not tracks:
        return None
    if operator.kind is NormKind.INSTANCE:
        return node.flag("use_input_stats")
    constant = {_ALWAYS: True, _NEVER: False, _NO_MODE: None}
    return constant[operator.mode] if operator.mode in constant else node.flag("training")


def _layer_name(node: Node, module: Module, named: dict[str, str | None]) -> str:
    """The owner of the tensors; without any, the module; for a function called in another module, path and node."""
    for slot in _STATE_ENDINGS:
        owner, _, ending = (named[slot] or "").rpartition(".")
        if ending == slot:
            return owner
    if module.norm_kind is not None:
        return module.path
    return f"{module.path}.{node.name}" if module.path else node.name


def _channels(node: Node, kind: NormKind, view: InputView) -> int | None:
    if kind in (NormKind.LAYER, NormKind.RMS):
        shape = node.integers("normalized_shape")
        return shape[0] if len(shape) == 1 else None
    return view.channels
