"""A graph computed in half precision, operator by operator.

As for PyTorch models: parameters and inputs are rounded to float16 or bfloat16, every operator computes in its own
precision on rounded values, and its result is rounded. In a copy of the graph, a pair of Casts does that.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from bnaudit.onnx_session.copies import Copy
from bnaudit.session import NotPossibleError

DTYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
_BFLOAT16_CASTS = 13
"""The opset since which Cast knows bfloat16."""
_FLOATING = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
_MOVING = {
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Pad",
    "Relu",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}
"""Operators whose results are values that they were given, or zero: rounded already."""


def round_all(copy: Copy, dtype: str) -> None:
    """Round whatever a copy's nodes compute. Raises NotPossibleError where types are unknown, or nodes hold graphs."""
    if dtype not in DTYPES:
        raise NotPossibleError(f"{dtype} is none of the precisions that can be tried ({', '.join(DTYPES)})")
    kinds = _kinds(copy)
    target = DTYPES[dtype]
    given = {
        name: _rounded(copy, 0, name, kinds[name], target)
        for name in _given(copy)
        if _concerns(kinds.get(name), target)
    }
    for number, node in enumerate(copy.originals):
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise NotPossibleError(f"half precision cannot be tried in a graph with branches or loops ({node.op_type})")
        node.input[:] = [given.get(name, name) for name in node.input]
        if node.op_type not in _MOVING:
            _round_outputs(copy, number, node, kinds, target)


def _round_outputs(copy: Copy, number: int, node: onnx.NodeProto, kinds: dict[str, int], target: int) -> None:
    for index, name in enumerate(node.output):
        if not name:
            continue
        if name not in kinds:
            raise NotPossibleError(
                f"half precision cannot be tried: the type of what a {node.op_type} returns is unknown"
            )
        if _concerns(kinds[name], target):
            node.output[index] = copy.fresh("own")
            made = _rounded(copy, number + 1, node.output[index], kinds[name], target)
            copy.place(number + 1, helper.make_node("Identity", [made], [name], name=copy.fresh("Identity")))


def _rounded(copy: Copy, before: int, name: str, kind: int, target: int) -> str:
    if target == TensorProto.BFLOAT16 and copy.opset < _BFLOAT16_CASTS:
        return _split(copy, before, name, kind)
    return copy.cast(before, copy.cast(before, name, target), kind)


def _split(copy: Copy, before: int, name: str, kind: int) -> str:
    """Rounded to the 8 bits of bfloat16 in float32: c = x · (2¹⁶ + 1), c − (c − x) (Dekker 1971)."""
    single = name if kind == TensorProto.FLOAT else copy.cast(before, name, TensorProto.FLOAT)
    scaled = copy.add(before, "Mul", [single, copy.constant(np.array(65537.0, np.float32))])
    upper = copy.add(before, "Sub", [scaled, copy.add(before, "Sub", [scaled, single])])
    return upper if kind == TensorProto.FLOAT else copy.cast(before, upper, kind)


def _concerns(kind: int | None, target: int) -> bool:
    return kind in _FLOATING and kind != target


def _given(copy: Copy) -> list[str]:
    """Inputs, and initializers that are no single number."""
    tensors = {tensor.name: len(tensor.dims) and list(tensor.dims) != [1] for tensor in copy.graph.initializer}
    inputs = [each.name for each in copy.graph.input if each.name not in tensors]
    return [*inputs, *(name for name, is_whole in tensors.items() if is_whole)]


def _kinds(copy: Copy) -> dict[str, int]:
    """Element types (TensorProto.DataType) of all values of the graph that onnx can infer."""
    inferred = onnx.shape_inference.infer_shapes(copy.model).graph
    kinds = {tensor.name: int(tensor.data_type) for tensor in inferred.initializer}
    for info in (*inferred.input, *inferred.output, *inferred.value_info):
        if info.type.tensor_type.elem_type:
            kinds[info.name] = int(info.type.tensor_type.elem_type)
    return kinds
