"""Names through branches, loops and functions; order of execution; what depends on an input."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_builders import BETA, FLOAT, GAMMA, IMAGE, MEAN, PARAMETERS, VAR, describe, layers_of, model, node

from bnaudit.caps import Caps
from bnaudit.description import NormLayer
from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.dependence import Dependence
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.model import read_model
from bnaudit.reading.onnx.scope import Scope
from bnaudit.records import replace

BN = node("BatchNormalization", ["x", *PARAMETERS], name="norm")


@contextmanager
def main_scope(proto: onnx.ModelProto, folder: Path) -> Iterator[Scope]:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with ByteSource.open(path) as source, ExternalFiles(source) as files:
        read = read_model(source, files)
        yield Scope(read, read.graph)


def roots(proto: onnx.ModelProto, folder: Path, name: str = "y") -> set[str]:
    with main_scope(proto, folder) as scope:
        value = scope.value(name)
        assert value is not None
        return set(Dependence().roots(value))


def body(nodes: Sequence[onnx.NodeProto], inputs: Sequence[str] = (), outputs: Sequence[str] = ("y",)) -> Any:
    return helper.make_graph(
        list(nodes),
        "body",
        [helper.make_empty_tensor_value_info(name) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )


def choice(then: onnx.GraphProto, other: onnx.GraphProto, **attributes: Any) -> onnx.NodeProto:
    return node("If", ["flag"], then_branch=then, else_branch=other, **attributes)


def branch(operator: str, operand: str) -> onnx.GraphProto:
    return body([node(operator, [operand], ["b"])], outputs=["b"])


def function(name: str, inputs: Sequence[str], nodes: Sequence[onnx.NodeProto], opset: int = 17, **more: Any) -> Any:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, list(inputs), ["y"], list(nodes), opsets, **more)


LOCAL = {"local": 1}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("Relu", ["x"])], {"x"}),
        ([node("Add", ["x", "c"])], {"x"}),
        ([node("Add", ["x", "z"])], {"x", "z"}),
        ([node("Add", ["c", "c"])], set()),
        ([node("Shape", ["x"])], set()),
        ([node("Size", ["x"])], set()),
        ([node("Shape", ["x"], ["s"]), node("Tile", ["c", "s"])], set()),
        ([node("Shape", ["x"], ["s"]), node("Tile", ["x", "s"])], {"x"}),
        ([node("CastLike", ["c", "x"])], set()),
        ([node("RandomNormalLike", ["x"])], {""}),
        ([choice(branch("Neg", "x"), branch("Neg", "c"))], {"x", "flag"}),
        ([choice(branch("Neg", "c"), branch("Neg", "c"))], {"flag"}),
        ([node("Neg", ["y2"]), node("Neg", ["y"], ["y2"])], set()),
    ],
    ids=lambda value: "-".join(each.op_type for each in value) if isinstance(value, list) else None,
)
def test_what_a_value_depends_on(nodes: list[onnx.NodeProto], expected: set[str], tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"x": IMAGE, "z": IMAGE, "flag": ()}
    assert roots(model(nodes, {"c": np.float32(1)}, inputs=inputs), tmp_path) == expected


def test_an_initializer_that_stands_in_the_inputs_ends_the_walk(tmp_path: Path) -> None:
    proto = model([node("Neg", ["c"])], {"c": np.float32(1)}, inputs={"x": IMAGE, "c": ()})
    assert roots(proto, tmp_path) == set()


def test_loop_values_depend_on_what_enters_the_loop(tmp_path: Path) -> None:
    inner = body([node("Identity", ["go"], ["again"]), node("Add", ["state", "c"], ["next"])],
                 ["i", "go", "state"], ["again", "next"])  # fmt: skip
    proto = model([node("Loop", ["n", "", "x"], body=inner)], {"n": np.array(3), "c": np.float32(1)})
    assert roots(proto, tmp_path) == {"x"}


def test_long_chains_are_walked_without_recursion(tmp_path: Path) -> None:
    nodes = [node("Relu", [f"v{index}" if index else "x"], [f"v{index + 1}"]) for index in range(20_000)]
    assert roots(model(nodes, outputs=("v20000",)), tmp_path, "v20000") == {"x"}


def test_norms_in_branches_are_read_and_say_where(tmp_path: Path) -> None:
    then, other = (
        body([BN]),
        body([node("Relu", ["x"], ["r"]), node("InstanceNormalization", ["r", "g", "b"], name="in")]),
    )
    proto = model(
        [node("Neg", ["x"], ["n"]), choice(then, other)],
        {**PARAMETERS, "g": GAMMA, "b": BETA},
        inputs={"x": IMAGE, "flag": ()},
    )
    by_name = {layer.name: layer for layer in layers_of(proto, tmp_path)}
    assert set(by_name) == {"If_1.then_branch/bn", "If_1.else_branch/in"}
    assert array(by_name["If_1.then_branch/bn"], "running_mean") == MEAN.tolist()
    assert array(by_name["If_1.else_branch/in"], "weight") == GAMMA.tolist()


def array(layer: NormLayer, name: str) -> list[float]:
    tensor = getattr(layer, name)
    assert tensor is not None
    assert tensor.values is not None, tensor.absence
    return [float(value) for value in tensor.values]


def test_norms_in_loop_bodies_use_the_loops_values_and_the_graph_around(tmp_path: Path) -> None:
    inner = body(
        [
            node("Identity", ["go"], ["again"]),
            node("BatchNormalization", ["state", *PARAMETERS], ["next"]),
        ],
        ["i", "go", "state"],
        ["again", "next"],
    )
    proto = model([node("Loop", ["n", "", "x"], body=inner, name="steps")], {"n": np.array(3), **PARAMETERS})
    (layer,) = layers_of(proto, tmp_path)
    assert (layer.name, layer.graph_training, layer.statistics_from_input) == ("steps.body/bn", False, False)
    assert array(layer, "running_var") == VAR.tolist()


def test_a_scan_whose_statistics_are_scanned_from_the_input_is_told(tmp_path: Path) -> None:
    inner = body(
        [node("BatchNormalization", ["state", "bn.weight", "bn.bias", "m", "m"], ["next"])], ["state", "m"], ["next"]
    )
    nodes = [
        node("ReduceMean", ["x"], ["stats"], axes=[2, 3], keepdims=0),
        node("Scan", ["x", "stats"], body=inner, num_scan_inputs=1),
    ]
    (layer,) = layers_of(model(nodes, PARAMETERS), tmp_path)
    assert layer.statistics_from_input is True


def test_branches_inside_branches_keep_the_way_in_their_names(tmp_path: Path) -> None:
    inner = choice(body([BN]), branch("Neg", "x"), name="inner")
    outer = choice(body([inner]), branch("Neg", "x"), name="outer")
    proto = model([outer], PARAMETERS, inputs={"x": IMAGE, "flag": ()})
    (layer,) = layers_of(proto, tmp_path)
    assert layer.name == "outer.then_branch/inner.then_branch/bn"


def test_a_function_is_read_once_for_each_call_with_its_arguments(tmp_path: Path) -> None:
    norm = function("norm", ["v", "g", "b", "m", "s"], [node("BatchNormalization", ["v", "g", "b", "m", "s"])])
    second = {f"bn2.{name.split('.')[1]}": array * 2 for name, array in PARAMETERS.items()}
    nodes = [
        node("norm", ["x", *PARAMETERS], ["z"], domain="local"),
        node("norm", ["z", *second], domain="local"),
    ]
    one, two = layers_of(model(nodes, {**PARAMETERS, **second}, functions=[norm], domains=LOCAL), tmp_path)
    assert (one.name, two.name) == ("bn", "bn2")
    assert array(one, "running_mean") == MEAN.tolist()
    assert array(two, "running_mean") == (MEAN * 2).tolist()
    assert {tensor.name for tensor in two.tensors} == set(second)


def test_the_opset_of_the_function_holds_inside_it(tmp_path: Path) -> None:
    """Without `training_mode` and with one output the node is inference at 9; at 6 `is_test` 0 means training."""
    for opset, training in ((9, False), (6, True)):
        norm = function("norm", ["v", *"gbms"], [node("BatchNormalization", ["v", *"gbms"])], opset)
        proto = model([node("norm", ["x", *PARAMETERS], domain="local")], PARAMETERS, functions=[norm], domains=LOCAL)
        (layer,) = layers_of(proto, tmp_path)
        assert layer.graph_training is training


def test_attributes_are_handed_to_functions_and_have_defaults(tmp_path: Path) -> None:
    inner = node("BatchNormalization", ["v", *"gbms"])
    for name, kind in (("epsilon", onnx.AttributeProto.FLOAT), ("momentum", onnx.AttributeProto.FLOAT)):
        inner.attribute.add(name=name, ref_attr_name=f"given_{name}", type=kind)
    default = helper.make_attribute("given_momentum", 0.75)
    norm = function("norm", ["v", *"gbms"], [inner], attributes=["given_epsilon"], attribute_protos=[default])
    calls = [node("norm", ["x", *PARAMETERS], domain="local", given_epsilon=1e-3)]
    (layer,) = layers_of(model(calls, PARAMETERS, functions=[norm], domains=LOCAL), tmp_path)
    assert (layer.eps, layer.momentum) == (1e-3, 0.25)


def test_functions_that_call_functions_are_looked_through(tmp_path: Path) -> None:
    shape = function("tiled", ["p", "v"], [node("Shape", ["v"], ["n"]), node("Tile", ["p", "n"])])
    norm = function(
        "norm",
        ["v", *"gbms"],
        [node("tiled", ["m", "v"], ["mm"], domain="local"), node("BatchNormalization", ["v", "g", "b", "mm", "s"])],
    )
    outer = function("block", ["v", *"gbms"], [node("norm", ["v", *"gbms"], domain="local")])
    calls = [node("block", ["x", *PARAMETERS], domain="local", name="layer1")]
    proto = model(calls, PARAMETERS, functions=[shape, norm, outer], domains=LOCAL)
    (layer,) = layers_of(proto, tmp_path)
    assert (layer.name, layer.statistics_from_input) == ("bn", False)
    assert array(layer, "running_mean") == MEAN.tolist()


def test_a_layer_in_a_function_without_named_parameters_says_the_call(tmp_path: Path) -> None:
    norm = function("norm", ["v"], [node("LpNormalization", ["v"], name="unit")])
    calls = [node("norm", ["x"], domain="local", name="head")]
    (layer,) = layers_of(model(calls, functions=[norm], domains=LOCAL), tmp_path)
    assert layer.name == "head/unit"


def test_a_function_that_calls_itself_is_malformed(tmp_path: Path) -> None:
    loop = function("loop", ["v"], [node("loop", ["v"], domain="local")])
    with pytest.raises(MalformedError, match="functions in one another"):
        describe(model([node("loop", ["x"], domain="local")], functions=[loop], domains=LOCAL), tmp_path)


@pytest.mark.parametrize("nodes", [20_000, Caps().graph_nodes])
def test_functions_that_multiply_end_at_the_cap(nodes: int, tmp_path: Path) -> None:
    functions = [function("f0", ["v"], [node("Relu", ["v"])])]
    for index in range(1, 40):
        name = f"f{index - 1}"
        functions.append(
            function(f"f{index}", ["v"], [node(name, ["v"], ["a"], domain="local"), node(name, ["a"], domain="local")])
        )
    proto = model([node("f39", ["x"], domain="local")], functions=functions, domains=LOCAL)
    started = time.process_time()
    with pytest.raises(CapExceededError, match="graph_nodes"):
        describe(proto, tmp_path, replace(Caps(), graph_nodes=nodes))
    assert time.process_time() - started < 30


def test_long_names_on_the_way_are_cut(tmp_path: Path) -> None:
    branches = body([BN])
    for level in range(20):
        branches = body([choice(branches, branch("Neg", "x"), name=f"{level}" * 100_000)])
    (layer,) = layers_of(model(branches.node, PARAMETERS, inputs={"x": IMAGE, "flag": ()}), tmp_path)
    assert layer.name.endswith("/bn")
    assert len(layer.name) < 20 * 300


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field, as protobuf writes it; its own library refuses to nest this deep."""
    length, varint = len(content), b""
    while length > 0x7F:
        varint += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([length]) + content


@pytest.mark.parametrize("levels", [40, 2_000])
def test_graphs_nested_too_deep_are_malformed(levels: int, tmp_path: Path) -> None:
    graph = b""
    for _ in range(levels):
        attribute = field(1, b"then_branch") + field(6, graph)
        graph = field(1, field(2, b"y") + field(4, b"If") + field(5, attribute))
    with pytest.raises(MalformedError, match="graphs in one another"):
        describe(b"\x08\x08" + field(7, graph), tmp_path)


def test_order_follows_execution_through_calls_and_branches(tmp_path: Path) -> None:
    def parameters(prefix: str) -> dict[str, Any]:
        return {f"{prefix}.{name.split('.')[1]}": array for name, array in PARAMETERS.items()}

    norm = function("norm", ["v", *"gbms"], [node("BatchNormalization", ["v", *"gbms"])])
    inner = body([node("BatchNormalization", ["b", *parameters("third")])])
    nodes = [
        node("BatchNormalization", ["x", *parameters("first")], ["a"]),
        node("norm", ["a", *parameters("second")], ["b"], domain="local"),
        choice(inner, branch("Neg", "b"), name="if"),
    ]
    arrays = {key: value for prefix in ("third", "second", "first") for key, value in parameters(prefix).items()}
    proto = model(nodes, arrays, functions=[norm], domains=LOCAL, inputs={"x": IMAGE, "flag": ()})
    assert [layer.name for layer in layers_of(proto, tmp_path)] == ["first", "second", "if.then_branch/third"]


def test_value_types_are_declared(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("h", FLOAT, ("N", 7))
    with main_scope(model([node("Relu", ["x"], ["h"])], value_info=[info], outputs=("h",)), tmp_path) as scope:
        value = scope.value("h")
        assert value is not None
        assert value.info is not None
        assert (value.info.dtype, value.info.shape) == ("float32", ("N", 7))
        assert scope.value("nowhere") is None
