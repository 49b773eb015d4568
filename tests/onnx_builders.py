"""Builds small ONNX models with onnx.helper and describes them with bnaudit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bnaudit.caps import Caps
from bnaudit.description import Description, NormLayer, Part
from bnaudit.formats import Candidate
from bnaudit.formats.onnx_file import FORMAT
from bnaudit.reading.byte_source import ByteSource

FLOAT = onnx.TensorProto.FLOAT
IMAGE = ("N", 4, 8, 8)
GAMMA = np.array([1.5, 0.5, -1.0, 2.0], np.float32)
BETA = np.array([0.25, -0.5, 0.0, 1.0], np.float32)
MEAN = np.array([0.3, -2.5, 20.0, 0.1], np.float32)
VAR = np.array([1.19, 25.0, 0.004, 3.0], np.float32)
PARAMETERS = {"bn.weight": GAMMA, "bn.bias": BETA, "bn.running_mean": MEAN, "bn.running_var": VAR}


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.NodeProto:
    """One node; `name` and `domain` are given as attributes are."""
    return helper.make_node(operator, list(inputs), list(outputs), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    initializers: Mapping[str, Any] | None = None,
    *,
    inputs: Mapping[str, Sequence[int | str | None] | None] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
    value_info: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """A model of these nodes over `x` of shape (N, 4, 8, 8); initializers are arrays or TensorProtos."""
    declared = {"x": IMAGE} if inputs is None else inputs
    tensors = [
        array if isinstance(array, onnx.TensorProto) else numpy_helper.from_array(np.asarray(array), name)
        for name, array in (initializers or {}).items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in declared.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        tensors,
        value_info=list(value_info),
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*pair) for pair in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), producer_name="builder")


def describe(proto: onnx.ModelProto | bytes, folder: Path, caps: Caps | None = None) -> Description:
    """What bnaudit says of a model that is saved in `folder`."""
    path = folder / "model.onnx"
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    return describe_file(path, caps)


def describe_file(path: Path, caps: Caps | None = None) -> Description:
    """What bnaudit says of a file."""
    with ByteSource.open(path, caps) as source:
        return FORMAT.read(Candidate(path, source))


def claimed(data: bytes, folder: Path, name: str = "model.onnx") -> bool:
    """Whether the ONNX format claims a file with this content."""
    path = folder / name
    path.write_bytes(data)
    with ByteSource.open(path) as source:
        return FORMAT.claims(Candidate(path, source))


def part_of(proto: onnx.ModelProto, folder: Path) -> Part:
    """The one part of the description."""
    (part,) = describe(proto, folder).parts
    return part


def layers_of(proto: onnx.ModelProto, folder: Path) -> tuple[NormLayer, ...]:
    """The norm layers of the description."""
    return part_of(proto, folder).layers


def layer_of(proto: onnx.ModelProto, folder: Path) -> NormLayer:
    """The one norm layer of the description."""
    (layer,) = layers_of(proto, folder)
    return layer
