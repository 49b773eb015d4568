"""The coarsest floating type that a graph computes in."""

from __future__ import annotations

import onnx

from bnaudit.description import Part
from bnaudit.reading.onnx.dtypes import dtype_name

_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")


def compute_dtype(part: Part, skeleton: onnx.ModelProto) -> str:
    """Of parameters, inputs, and what values are cast to; float32 for a graph without any."""
    cast = {
        dtype_name(attribute.i)
        for node in skeleton.graph.node
        if node.op_type == "Cast"
        for attribute in node.attribute
        if attribute.name == "to"
    }
    there = {*part.floating_dtypes, *(each.dtype for each in part.inputs), *cast}
    return next((dtype for dtype in _COARSEST_FIRST if dtype in there), "float32")
