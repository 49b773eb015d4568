"""The same graph in float64: parameters, constants, declared types and casts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

_NARROW = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
NARROW_NAMES = ("float32", "float16", "bfloat16")
_DOUBLE = onnx.TensorProto.DOUBLE
_TYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "stash_type", "output_datatype"}
"""Integer attributes that name a TensorProto.DataType."""


def to_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model, weights in it, whose floating values are all float64. Integers and float8 stay."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for graph in _graphs(wide.graph):
        for tensor in graph.initializer:
            _widen(tensor)
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.type.tensor_type.elem_type in _NARROW:
                info.type.tensor_type.elem_type = _DOUBLE
        for node in graph.node:
            _widen_attributes(node)
    for function in wide.functions:
        del function.value_info[:]
        for node in function.node:
            _widen_attributes(node)
    return wide


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)


def _widen_attributes(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _NARROW:
            attribute.i = _DOUBLE
        elif attribute.HasField("t"):
            _widen(attribute.t)
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            single = attribute.name == "value_float"
            values = np.array(attribute.f if single else list(attribute.floats), np.float64)
            attribute.CopyFrom(onnx.helper.make_attribute("value", numpy_helper.from_array(values)))


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in _NARROW:
        values = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
