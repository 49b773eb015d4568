"""A graph computed in half precision, operator by operator.

As for PyTorch models: parameters and inputs are rounded to float16 or bfloat16, every operator computes in its own
precision on rounded values, and its result is rounded. In a copy of the graph, a pair of Casts does that.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from bnaudit.onnx_session.copies import Copy
from bnaudit.session import NotPossibleError

DTYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
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
        name: _rounded(copy, name, kinds[name], target) for name in _given(copy) if _concerns(kinds.get(name), target)
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
            own = copy.fresh("own")
            node.output[index] = own
            narrow = copy.cast(number + 1, own, target)
            wide = helper.make_node("Cast", [narrow], [name], name=copy.fresh("Cast"), to=kinds[name])
            copy.place(number + 1, wide)


def _rounded(copy: Copy, name: str, kind: int, target: int) -> str:
    return copy.cast(0, copy.cast(0, name, target), kind)


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
