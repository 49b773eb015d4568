"""The convolutions and linear layers of an exported program, with the norms directly before and after them.

Argument names are those of PyTorch's operator schemas (aten/src/ATen/native/native_functions.yaml, torch 2.13).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bnaudit.caps import Caps
from bnaudit.comparison import LinearLayer
from bnaudit.description import Part
from bnaudit.reading.checkpoints.linear_tensors import placed
from bnaudit.reading.exported.graph import Node, Scope, Value, walk
from bnaudit.reading.exported.modules import module_of
from bnaudit.reading.exported.norms import OPERATORS
from bnaudit.reading.exported.signature import Signature
from bnaudit.reading.exported.values import Origins
from bnaudit.reading.json_text import JsonObject, as_object, object_at
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.records import replace

_CONVOLUTIONS = {f"aten.conv{axes}d": "conv" for axes in (1, 2, 3)} | {
    f"aten.conv_transpose{axes}d": "transposed conv" for axes in (1, 2, 3)
}
_GENERAL = ("aten.convolution", "aten._convolution")
_TURNS = ("aten.t", "aten.permute", "aten.transpose")
_ADDED = ("aten.linear", "aten.addmm")
_SLOTS = (("running_mean", "mean"), ("running_var", "var"), ("weight",), ("bias",))


def linear_calls(program: JsonObject, refs: Mapping[str, TensorRef], part: Part, caps: Caps) -> list[LinearLayer]:
    """The layers in execution order; no weight is read.

    Raises MalformedError when the graph is not one, CapExceededError above `caps.graph_nodes`.
    """
    module = as_object(program.get("graph_module"), "the graph module")
    root = Scope(as_object(module.get("graph"), "the graph"))
    calls = _Calls(Origins(root, Signature(object_at(module, "signature")).state), refs, part)
    for node in walk(root, caps):
        calls.look_at(node)
    return calls.layers()


class _Calls:
    def __init__(self, origins: Origins, refs: Mapping[str, TensorRef], part: Part) -> None:
        self._origins = origins
        self._refs = refs
        self._norm_of = {tensor.name: layer.name for layer in part.layers for tensor in layer.tensors}
        self._uses: Counter[Value] = Counter()
        self._norm_inputs: dict[Value, str] = {}
        self._norm_outputs: dict[Value, str] = {}
        self._marks: dict[str, tuple[LinearLayer, Node] | str] = {}

    def look_at(self, node: Node) -> None:
        """Take a node in."""
        self._uses.update(node.scope.outermost(name) for name in node.tensors())
        if node.op in OPERATORS:
            self._look_at_norm(node)
            return
        weight, turned = self._weight(node)
        if weight is None or (node.op not in _CONVOLUTIONS and node.op not in (*_GENERAL, *_ADDED)):
            return
        ref = self._refs.get(weight)
        if ref is not None and len(ref.shape) > 1 and "float" in ref.dtype:
            self._marks.setdefault(weight, (self._layer(node, weight, ref, turned), node))

    def layers(self) -> list[LinearLayer]:
        """All that were looked at."""
        marks = [mark if isinstance(mark, str) else self._beside_norms(*mark) for mark in self._marks.values()]
        return list(placed(marks))

    def _look_at_norm(self, node: Node) -> None:
        stored = (self._origins.stored_name(node.scope, node.tensor(*names)) for names in _SLOTS)
        name = next((self._norm_of[each] for each in stored if each in self._norm_of), None)
        data = node.tensor("input", "self")
        if name is None or data is None:
            return
        self._norm_inputs[node.scope.outermost(data)] = name
        if node.outputs:
            self._norm_outputs[node.scope.outermost(node.outputs[0])] = name
        self._marks.setdefault(f"norm {name}", name)

    def _weight(self, node: Node) -> tuple[str | None, bool]:
        """The name of the weight, and whether it is turned on the way, as a decomposed linear layer's is."""
        value = node.tensor("mat2" if node.op == "aten.addmm" else "weight")
        producer = node.scope.producers.get(value) if value is not None else None
        if producer is not None and producer.op in _TURNS:
            return self._origins.stored_name(producer.scope, producer.tensor("self", "input")), True
        return self._origins.stored_name(node.scope, value), False

    def _layer(self, node: Node, weight: str, ref: TensorRef, turned: bool) -> LinearLayer:
        bias = self._stored(node, "self" if node.op == "aten.addmm" else "bias")
        return LinearLayer(
            name=weight.removesuffix(".weight") if weight.endswith(".weight") else module_of(node).path or node.name,
            operator=_operator(node),
            weight=ref,
            bias=self._refs.get(bias) if bias is not None else None,
            groups=1 if node.op in _ADDED else int(node.number("groups") or 1),
            output_last=(node.op == "aten.addmm") != turned,
            padded=node.op not in _ADDED and any(node.integers("padding")),
        )

    def _beside_norms(self, layer: LinearLayer, node: Node) -> LinearLayer:
        output = node.scope.outermost(node.outputs[0]) if node.outputs else None
        data = node.tensor("mat1" if node.op == "aten.addmm" else "input")
        source = node.scope.outermost(data) if data is not None else None
        return replace(
            layer,
            norm_after=self._norm_inputs.get(output) if output is not None and self._uses[output] == 1 else None,
            norm_before=self._norm_outputs.get(source) if source is not None and self._uses[source] == 1 else None,
        )

    def _stored(self, node: Node, argument: str) -> str | None:
        return self._origins.stored_name(node.scope, node.tensor(argument))


def _operator(node: Node) -> str | None:
    if node.op in _ADDED:
        return "linear"
    if node.op in _GENERAL:
        transposed = node.flag("transposed")
        return None if transposed is None else "transposed conv" if transposed else "conv"
    return _CONVOLUTIONS[node.op]
