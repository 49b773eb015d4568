"""Models that hypothesis draws, read as onnx.load reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx_builders import model, node

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.graph import Attribute, Graph
from bnaudit.reading.onnx.model import Model, looks_like_model, read_model

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
FLOATS = st.floats(width=32, allow_nan=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    FLOATS,
    INTEGERS,
    NAMES.filter(bool),
    st.lists(FLOATS, min_size=1, max_size=5),
    st.lists(INTEGERS, min_size=1, max_size=5),
    st.lists(st.integers(0, 9), min_size=300, max_size=400),
)
DIMENSIONS = st.one_of(st.none(), st.integers(1, 2**40), NAMES.filter(bool))


@st.composite
def nodes(draw: st.DrawFn) -> onnx.NodeProto:
    attributes = {f"a{key}": value for key, value in draw(st.dictionaries(st.integers(0, 5), VALUES)).items()}
    return helper.make_node(
        draw(NAMES),
        draw(st.lists(NAMES, max_size=4)),
        draw(st.lists(NAMES, max_size=3)),
        name=draw(NAMES),
        domain=draw(st.sampled_from(["", "com.microsoft", "x"])),
        doc_string=draw(NAMES),
        **attributes,
    )


@st.composite
def tensors(draw: st.DrawFn) -> onnx.TensorProto:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.int8, np.uint16, np.bool_]))
    array = (np.arange(np.prod(shape, dtype=int)) % 7).astype(dtype).reshape(shape)
    name = draw(NAMES)
    if draw(st.booleans()):
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape, array.reshape(-1))


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    shapes = st.one_of(st.none(), st.lists(DIMENSIONS, max_size=4))
    infos = st.lists(st.builds(helper.make_tensor_value_info, NAMES, st.sampled_from([1, 7, 16]), shapes), max_size=3)
    initializers = {tensor.name: tensor for tensor in draw(st.lists(tensors(), max_size=4))}
    graph = helper.make_graph(
        draw(st.lists(nodes(), min_size=1, max_size=6)),
        draw(NAMES),
        draw(infos),
        draw(infos),
        list(initializers.values()),
        doc_string=draw(NAMES),
        value_info=draw(infos),
    )
    opsets = [helper.make_opsetid("", draw(st.integers(1, 30))), helper.make_opsetid("x", draw(st.integers(1, 9)))]
    return helper.make_model(graph, opset_imports=opsets, producer_name=draw(NAMES), producer_version=draw(NAMES))


@contextmanager
def opened(data: bytes, folder: Path) -> Iterator[Model]:
    path = folder / "model.onnx"
    path.write_bytes(data)
    with ByteSource.open(path) as source, ExternalFiles(source) as files:
        assert looks_like_model(source)
        yield read_model(source, files)


def value_of(attribute: Attribute) -> Any:
    """What onnx.helper.get_attribute_value gives for the kinds that are drawn."""
    held = [attribute.real, attribute.i, attribute.text, attribute.floats, attribute.integers]
    (found,) = [value for value in held if value is not None and value != []]
    return found.encode() if isinstance(found, str) else found


def same_graph(ours: Graph, theirs: onnx.GraphProto) -> None:
    assert len(ours.nodes) == len(theirs.node)
    for found, expected in zip(ours.nodes, theirs.node, strict=True):
        assert (found.op_type, found.name, found.domain) == (expected.op_type, expected.name, expected.domain)
        assert (found.inputs, found.outputs) == (list(expected.input), list(expected.output))
        attributes = {each.name: helper.get_attribute_value(each) for each in expected.attribute}
        assert {name: value_of(each) for name, each in found.attributes.items()} == attributes
    assert list(ours.initializers) == [tensor.name for tensor in theirs.initializer]
    for expected in theirs.initializer:
        np.testing.assert_array_equal(ours.initializers[expected.name].load(), numpy_helper.to_array(expected))
    assert ours.outputs == [info.name for info in theirs.output]
    for info in theirs.value_info:
        assert ours.value_info(info.name) is not None
    assert [(info.name, info.shape) for info in ours.inputs] == [(info.name, shape_of(info)) for info in theirs.input]


def shape_of(info: onnx.ValueInfoProto) -> tuple[Any, ...] | None:
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(size.dim_param or size.dim_value or None for size in tensor.shape.dim)


@settings(max_examples=150)
@given(proto=models())
def test_models_are_read_as_onnx_loads_them(proto: onnx.ModelProto, tmp_path: Path) -> None:
    with opened(proto.SerializeToString(), tmp_path) as found:
        assert found.ir_version == proto.ir_version
        assert (found.producer or "") == f"{proto.producer_name} {proto.producer_version}".strip()
        assert found.opsets == {entry.domain: entry.version for entry in proto.opset_import}
        same_graph(found.graph, proto.graph)


def test_ai_onnx_is_the_default_domain(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], domain="ai.onnx")], opset=12)
    proto.opset_import[0].domain = "ai.onnx"
    with opened(proto.SerializeToString(), tmp_path) as found:
        assert found.opsets == {"": 12}


def test_functions_are_read_with_their_own_opsets_and_defaults(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 9), helper.make_opsetid("local", 2)]
    default = helper.make_attribute("alpha", 0.5)
    written = helper.make_function(
        "local", "f", ["a", "b"], ["c"], [node("Add", ["a", "b"], ["c"])], opsets,
        ["beta"], [default], overload="second",
    )  # fmt: skip
    with opened(model([node("Relu", ["x"])], functions=[written]).SerializeToString(), tmp_path) as found:
        ((key, function),) = found.functions.items()
        assert key == ("local", "f", "second")
        assert (function.inputs, function.body.outputs, function.opsets) == (["a", "b"], ["c"], {"": 9, "local": 2})
        assert function.defaults["alpha"].real == 0.5
        assert [each.op_type for each in function.body.nodes] == ["Add"]
