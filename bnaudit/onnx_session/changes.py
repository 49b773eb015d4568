"""A Variation in a copy of a graph: norm nodes get inputs of their own, another epsilon, their training form.

A parameter that several nodes share is left as it is: the changed node reads a new initializer. onnxruntime 1.32 makes
a session of an edited ResNet-50 without optimizations in 28 ms, so that every variation gets a copy of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bnaudit.description import ModeDependent, NormLayer, StoredTensor
from bnaudit.onnx_session.copies import Copy
from bnaudit.onnx_session.instruments import has_moments
from bnaudit.onnx_session.statistics import give_training_form, sample_moments
from bnaudit.onnx_session.survey import NormNode, RandomNode, Survey
from bnaudit.records import replace
from bnaudit.session import NotPossibleError
from bnaudit.variation import Altered

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INPUTS = {
    "BatchNormalization": {"gamma": 1, "beta": 2, "mean": 3, "var": 4},
    "InstanceNormalization": {"gamma": 1, "beta": 2},
    "LayerNormalization": {"gamma": 1, "beta": 2},
    "GroupNormalization": {"gamma": 1, "beta": 2},
}
"""Norms of one node, all of which have an attribute `epsilon`; positions of their inputs (onnx/docs/Operators.md)."""
_FIELDS = {"gamma": "weight", "beta": "bias", "mean": "running_mean", "var": "running_var"}
_WORDS = {"gamma": "weight", "beta": "bias", "mean": "running mean", "var": "running variance"}
_ABSENT = {"gamma": 1.0, "beta": 0.0}
_SWITCHED = 12
"""The opset since which a Dropout has a training flag."""


def altered(copy: Copy, norm: NormNode, change: Altered) -> NormNode:
    """Replace parameters and epsilon of one norm in a copy; what it is now. Raises NotPossibleError."""
    layer = norm.layer
    for field, index in _FIELDS.items():
        values = getattr(change, field)
        if values is not None:
            layer = _replaced(copy, norm, layer, field, np.asarray(values, np.float64), index)
    if change.eps is not None:
        _positions(norm)
        _set(copy.original(norm.number), "epsilon", float(change.eps))
        layer = replace(layer, eps=float(change.eps))
    return norm._replace(layer=layer)


def trained(copy: Copy, norm: NormNode) -> NormNode:
    """Let one norm of a copy use its batch. Raises NotPossibleError."""
    if norm.uses_batch:
        return norm
    if not has_moments(norm):
        raise NotPossibleError(f"{norm.layer.name} has no training form that a copy of the graph could get")
    norm = norm._replace(data=copy.original(norm.number).input[0], uses_batch=True)
    give_training_form(copy, norm, sample_moments(copy, norm))
    return norm


def dropping(copy: Copy) -> tuple[RandomNode, ...]:
    """Let the Dropout nodes of a copy drop. Raises NotPossibleError where there are none that can."""
    numbers = [number for number, node in enumerate(copy.originals) if node.op_type == "Dropout" and not node.domain]
    if not numbers:
        raise NotPossibleError("the graph has no Dropout: what drops was removed when it was exported")
    if copy.opset < _SWITCHED:
        raise NotPossibleError(f"a Dropout of opset {copy.opset} cannot be set to drop; from {_SWITCHED} on it can")
    switched = copy.constant(np.array(True))
    return tuple(_dropping(copy.original(number), number, switched) for number in numbers)


def _dropping(node: onnx.NodeProto, number: int, switched: str) -> RandomNode:
    node.input.extend([""] * (3 - len(node.input)))
    node.input[2] = switched
    name = node.name or node.output[0]
    fixed = ModeDependent(name=name, kind="dropout", class_name="Dropout", graph_training=True)
    return RandomNode(number, name, "Dropout", fixed)


def norm_called(survey: Survey, name: str) -> NormNode:
    """The norm layer of this name. Raises NotPossibleError."""
    found = [norm for norm in survey.norms if norm.layer.name == name]
    if found:
        return found[0]
    if name in survey.hidden_norms:
        raise NotPossibleError(f"{name} stands in a branch, a loop or a function of the graph, and cannot be changed")
    raise NotPossibleError(f"the graph has no norm layer {name}")


def _positions(norm: NormNode) -> dict[str, int]:
    positions = _INPUTS.get(norm.operator)
    if positions is None or norm.layer.spelled_out:
        what = "is spelled out in several nodes" if norm.layer.spelled_out else f"is a {norm.operator}"
        raise NotPossibleError(f"{norm.layer.name} {what}, which cannot be changed")
    return positions


def _replaced(
    copy: Copy, norm: NormNode, layer: NormLayer, field: str, values: NDArray[np.float64], attribute: str
) -> NormLayer:
    index, node = _positions(norm).get(field), copy.original(norm.number)
    stored: StoredTensor | None = getattr(layer, attribute)
    if index is None or index >= len(node.input) or not node.input[index]:
        if field in _ABSENT and bool((values == _ABSENT[field]).all()):
            return layer
        raise NotPossibleError(f"{layer.name} has no {_WORDS[field]} that could be replaced")
    shape = stored.shape if stored is not None else (layer.channels,)
    if values.shape != shape:
        raise NotPossibleError(f"the {_WORDS[field]} of {layer.name} has the shape {shape}, not {values.shape}")
    known = stored or next(iter(layer.tensors), None)
    tensor = _tensor(values, known.dtype if known is not None else "float32", copy.fresh("constant"))
    copy.graph.initializer.append(tensor)
    node.input[index] = tensor.name
    if stored is None:
        return layer
    exact = np.asarray(numpy_helper.to_array(tensor), np.float64)
    changed: dict[str, Any] = {attribute: replace(stored, values=exact)}
    return replace(layer, **changed)


def _tensor(values: NDArray[np.float64], dtype: str, name: str) -> onnx.TensorProto:
    """An initializer of the stored type; values beyond it become infinite."""
    kind = onnx.TensorProto.DataType.Value({"float64": "DOUBLE", "float32": "FLOAT"}.get(dtype, dtype.upper()))
    with np.errstate(over="ignore"):
        return numpy_helper.from_array(values.astype(helper.tensor_dtype_to_np_dtype(kind)), name)


def _set(node: onnx.NodeProto, name: str, value: float) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
