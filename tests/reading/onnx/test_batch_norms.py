"""BatchNormalization: its form by opset, its numbers, and where its statistics come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx_builders import BETA, GAMMA, IMAGE, MEAN, PARAMETERS, VAR, describe, layer_of, layers_of, model, node

from bnaudit.description import NormKind, StoredTensor

INPUTS = ("x", *PARAMETERS)
FIVE = ("y", "m", "v", "sm", "sv")


def batch_norm(
    outputs: tuple[str, ...] = ("y",), inputs: tuple[str, ...] = INPUTS, **attributes: Any
) -> onnx.NodeProto:
    return node("BatchNormalization", inputs, outputs, **attributes)


def values(tensor: StoredTensor | None) -> list[float]:
    assert tensor is not None
    assert tensor.values is not None, tensor.absence
    return [float(value) for value in tensor.values]


def forms(opset: int) -> list[tuple[onnx.NodeProto, bool]]:
    """The inference and training forms of an opset, as onnx/docs/Changelog.md describes them."""
    extra = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
    if opset < 7:
        return [
            (batch_norm(is_test=1, **extra), False),
            (batch_norm(is_test=0, **extra), True),
            (batch_norm(FIVE, **extra), True),
        ]
    if opset < 14:
        return [(batch_norm(), False), (batch_norm(("y", "", "", "", "")), False), (batch_norm(FIVE), True)]
    return [
        (batch_norm(), False),
        (batch_norm(training_mode=0), False),
        (batch_norm(("y", "m", "v"), training_mode=1), True),
        (batch_norm(training_mode=1), True),
    ]


@pytest.mark.parametrize("opset", range(1, 25))
def test_every_opset_tells_training_from_inference(opset: int, tmp_path: Path) -> None:
    schema = onnx.defs.get_schema("BatchNormalization", opset)
    for written, training in forms(opset):
        assert {attribute.name for attribute in written.attribute} <= set(schema.attributes)
        layer = layer_of(model([written], PARAMETERS, opset=opset), tmp_path)
        assert layer.graph_training is training
        assert layer.statistics_from_input is (None if training else False)
        assert (layer.kind, layer.class_name, layer.name) == (NormKind.BATCH, "BatchNormalization", "bn")
        assert (layer.eps, layer.momentum) == (1e-5, 0.1)
        assert layer.declared_channels == 4
        assert layer.training is None
        assert values(layer.weight) == GAMMA.tolist()
        assert values(layer.bias) == BETA.tolist()
        assert values(layer.running_mean) == MEAN.tolist()
        assert values(layer.running_var) == VAR.tolist()


def test_a_file_without_opset_is_read_as_opset_1(tmp_path: Path) -> None:
    proto = model([batch_norm()], PARAMETERS)
    del proto.opset_import[:]
    assert layer_of(proto, tmp_path).graph_training is True


@given(momentum=st.integers(0, 1000), exponent=st.integers(-7, -1), mantissa=st.integers(1, 99))
def test_momentum_becomes_the_weight_of_the_new_batch(
    momentum: int, exponent: int, mantissa: int, tmp_path: Path
) -> None:
    eps = float(f"{mantissa}e{exponent}")
    layer = layer_of(model([batch_norm(momentum=momentum / 1000, epsilon=eps)], PARAMETERS), tmp_path)
    assert layer.momentum == pytest.approx(1 - momentum / 1000, abs=1e-9)
    assert layer.eps == eps


def test_statistics_per_activation_have_no_channel_axis(tmp_path: Path) -> None:
    large = {name: np.tile(array[:, None, None], (1, 8, 8)) for name, array in PARAMETERS.items()}
    layer = layer_of(model([batch_norm(spatial=0)], large, opset=7), tmp_path)
    assert layer.declared_channels is None
    assert layer.running_mean is not None
    assert layer.running_mean.shape == (4, 8, 8)


@pytest.mark.parametrize("training", [False, True])
def test_onnx_runtimes_variant_trains_unless_told_otherwise(training: bool, tmp_path: Path) -> None:
    settings = {} if training else {"training_mode": 0}
    written = node("BatchNormInternal", INPUTS, FIVE, domain="com.microsoft", **settings)
    layer = layer_of(model([written], PARAMETERS, domains={"com.microsoft": 1}), tmp_path)
    assert layer.graph_training is training


def test_initializers_that_also_stand_in_the_inputs_are_constants(tmp_path: Path) -> None:
    shapes: dict[str, Any] = {"x": IMAGE, **dict.fromkeys(PARAMETERS, (4,))}
    proto = model([batch_norm()], PARAMETERS, inputs=shapes)
    description = describe(proto, tmp_path)
    (layer,) = description.parts[0].layers
    assert layer.statistics_from_input is False
    assert values(layer.running_var) == VAR.tolist()
    assert [entry.name for entry in description.parts[0].inputs] == ["x"]


def branch(operator: str, operand: str) -> onnx.GraphProto:
    return helper.make_graph([node(operator, [operand], ["b"])], "b", [], [helper.make_empty_tensor_value_info("b")])


CHAINS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], np.ndarray[Any, Any]]] = {
    "Constant": ([node("Constant", [], ["m"], value=numpy_helper.from_array(MEAN))], {}, MEAN),
    "Constant floats": ([node("Constant", [], ["m"], value_floats=MEAN.tolist())], {}, MEAN),
    "Identity": ([node("Identity", ["a"], ["b"]), node("Identity", ["b"], ["m"])], {"a": MEAN}, MEAN),
    "ConstantOfShape": (
        [node("ConstantOfShape", ["s"], ["m"], value=helper.make_tensor("v", 1, [1], [0.02]))],
        {"s": np.array([4])},
        np.full(4, np.float32(0.02)),
    ),
    "Shape of the channels": (
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["n"]), node("Expand", ["a", "n"], ["m"])],
        {"i": np.array([1]), "a": np.array([1.5], np.float32)},
        np.full(4, np.float32(1.5)),
    ),
    "Expand": ([node("Expand", ["a", "s"], ["m"])], {"a": np.float32([7]), "s": np.array([4])}, np.full(4, 7)),
    "Tile": ([node("Tile", ["a", "r"], ["m"])], {"a": np.float32([1, 2]), "r": np.array([2])}, np.array([1, 2, 1, 2])),
    "DequantizeLinear": (
        [node("DequantizeLinear", ["q", "k", "z"], ["m"])],
        {"q": np.array([10, 3, 0, 255], np.uint8), "k": np.float32(0.1), "z": np.uint8(3)},
        (np.array([7, 0, -3, 252], np.float32) * np.float32(0.1)),
    ),
    "arithmetic": (
        [
            node("Add", ["a", "k"], ["b"]),
            node("Sqrt", ["b"], ["c"]),
            node("Div", ["a", "c"], ["d"]),
            node("Neg", ["d"], ["m"]),
        ],
        {"a": VAR, "k": np.float32(1e-5)},
        -(VAR / np.sqrt(VAR + np.float32(1e-5))),
    ),
    "Cast, Reshape, Concat": (
        [
            node("Cast", ["a"], ["b"], to=1),
            node("Reshape", ["b", "s"], ["c"]),
            node("Concat", ["c", "c"], ["m"], axis=0),
        ],
        {"a": np.array([[0.5], [0.25]], np.float16), "s": np.array([-1])},
        np.array([0.5, 0.25, 0.5, 0.25]),
    ),
    "If with a known condition": (
        [
            node(
                "If",
                ["flag"],
                ["m"],
                then_branch=branch("Identity", "a"),
                else_branch=branch("Neg", "a"),
            )
        ],
        {"flag": np.array(False), "a": MEAN},
        -MEAN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_statistics_through_any_chain_of_constants_are_read(chain: str, tmp_path: Path) -> None:
    nodes, constants, expected = CHAINS[chain]
    inputs = ("x", "bn.weight", "bn.bias", "m", "bn.running_var")
    layer = layer_of(model([*nodes, batch_norm(inputs=inputs)], {**PARAMETERS, **constants}), tmp_path)
    assert values(layer.running_mean) == expected.astype(np.float64).tolist()
    assert (layer.statistics_from_input, layer.tracks_statistics) == (False, True)


def test_statistics_computed_from_the_values_of_an_input_are_told(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=[0, 2, 3], keepdims=0),
        node("ReduceMean", ["x"], ["mk"], axes=[0, 2, 3]),
        node("Sub", ["x", "mk"], ["d"]),
        node("Mul", ["d", "d"], ["dd"]),
        node("ReduceMean", ["dd"], ["v"], axes=[0, 2, 3], keepdims=0),
        batch_norm(inputs=("x", "bn.weight", "bn.bias", "m", "v")),
    ]
    layer = layer_of(model(nodes, PARAMETERS), tmp_path)
    assert (layer.graph_training, layer.statistics_from_input, layer.tracks_statistics) == (False, True, False)
    assert (layer.running_mean, layer.running_var, layer.name) == (None, None, "bn")


def test_statistics_that_the_caller_gives_are_no_ones_defect(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"x": IMAGE, "bn.running_mean": (4,), "bn.running_var": (4,)}
    affine = {name: PARAMETERS[name] for name in ("bn.weight", "bn.bias")}
    layer = layer_of(model([batch_norm()], affine, inputs=inputs), tmp_path)
    assert (layer.graph_training, layer.statistics_from_input, layer.tracks_statistics) == (False, None, None)
    assert (layer.running_mean, layer.running_var) == (None, None)


@pytest.mark.parametrize("which", [3, 4])
def test_one_of_the_two_from_the_input_is_enough(which: int, tmp_path: Path) -> None:
    operands = ["x", *PARAMETERS]
    operands[which] = "m"
    nodes = [node("ReduceMean", ["x"], ["m"], axes=[0, 2, 3], keepdims=0), batch_norm(inputs=tuple(operands))]
    assert layer_of(model(nodes, PARAMETERS), tmp_path).statistics_from_input is True


def test_instance_norm_with_tracking_as_the_dynamo_exporter_writes_it(tmp_path: Path) -> None:
    """onnxscript's aten_instance_norm: a view of (1, N·C, …), and statistics repeated N times through Shape."""
    nodes = [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Shape", ["x"], ["rest"], start=2),
        node("Concat", ["front", "rest"], ["s"], axis=0),
        node("Reshape", ["x", "s"], ["view"]),
        *(node("Tile", [name, "n"], [f"{name} tiled"]) for name in PARAMETERS),
        batch_norm(("z",), ("view", *(f"{name} tiled" for name in PARAMETERS))),
        node("Shape", ["x"], ["whole"]),
        node("Reshape", ["z", "whole"], ["y"]),
    ]
    layer = layer_of(model(nodes, {**PARAMETERS, "front": np.array([1, -1])}), tmp_path)
    assert (layer.kind, layer.graph_training, layer.statistics_from_input) == (NormKind.INSTANCE, False, None)
    assert (layer.name, layer.tracks_statistics) == ("bn", True)
    assert values(layer.running_mean) == MEAN.tolist()


def test_training_form_on_a_view_with_one_sample_is_an_instance_norm(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "s"], ["view"]), batch_norm(("z",), ("view", *PARAMETERS), training_mode=1)]
    layer = layer_of(model(nodes, {**PARAMETERS, "s": np.array([1, -1, 8, 8])}, outputs=("z",)), tmp_path)
    assert (layer.kind, layer.graph_training, layer.tracks_statistics) == (NormKind.INSTANCE, None, False)


def test_weight_standardization_is_no_norm_layer(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", ["w", "s"], ["view"]),
        batch_norm(("z",), ("view", *PARAMETERS), training_mode=1),
        node("Reshape", ["z", "back"], ["standard"]),
        node("Conv", ["x", "standard"]),
    ]
    constants = {"w": np.ones((4, 4, 1, 1), np.float32), "s": np.array([1, 4, -1]), "back": np.array([4, 4, 1, 1])}
    assert layers_of(model(nodes, {**PARAMETERS, **constants}), tmp_path) == ()


def test_a_generator_without_inputs_still_has_layers(tmp_path: Path) -> None:
    nodes = [node("RandomNormal", [], ["x"], shape=[1, 4, 8, 8]), batch_norm()]
    layer = layer_of(model(nodes, PARAMETERS, inputs={}), tmp_path)
    assert (layer.graph_training, layer.statistics_from_input) == (False, False)


def test_channels_come_from_the_convolution_before_when_nothing_is_declared(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), batch_norm(inputs=("c", *PARAMETERS))]
    proto = model(nodes, {**PARAMETERS, "w": np.ones((6, 4, 1, 1), np.float32)})
    assert layer_of(proto, tmp_path).declared_channels == 6


def test_a_constant_that_is_not_worked_out_is_unread_and_not_from_the_input(tmp_path: Path) -> None:
    nodes = [
        node("Erf", ["bn.running_mean"], ["m"]),
        batch_norm(inputs=("x", "bn.weight", "bn.bias", "m", "bn.running_var")),
    ]
    description = describe(model(nodes, PARAMETERS), tmp_path)
    (layer,) = description.parts[0].layers
    assert (layer.statistics_from_input, layer.tracks_statistics) == (False, True)
    assert layer.running_mean is not None
    assert (layer.running_mean.values, layer.running_mean.unread) == (None, True)
    (gap,) = description.gaps
    assert (gap.where, gap.hides_norms) == ("m", False)
    assert "Erf" in gap.why


def test_half_precision_parameters_keep_their_type(tmp_path: Path) -> None:
    halves = {name: array.astype(np.float16) for name, array in PARAMETERS.items()}
    layer = layer_of(model([batch_norm()], halves), tmp_path)
    assert {tensor.dtype for tensor in layer.tensors} == {"float16"}
    assert values(layer.running_mean) == MEAN.astype(np.float16).astype(np.float64).tolist()


def test_order_is_the_order_of_execution(tmp_path: Path) -> None:
    nodes, arrays, current = [], {}, "x"
    for name in ("stem", "layer1.0.bn1", "layer1.0.bn2", "head"):
        parts = {f"{name}.{key.split('.')[1]}": array for key, array in PARAMETERS.items()}
        arrays.update(dict(reversed(parts.items())))
        nodes.append(batch_norm((f"{name} out",), (current, *parts)))
        current = f"{name} out"
    assert [layer.name for layer in layers_of(model(nodes, arrays, outputs=(current,)), tmp_path)] == [
        "stem",
        "layer1.0.bn1",
        "layer1.0.bn2",
        "head",
    ]
