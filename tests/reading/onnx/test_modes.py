"""Dropout by opset, and names, folding and inputs of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_builders import BETA, GAMMA, IMAGE, PARAMETERS, describe, model, node, part_of

from bnaudit.description import ModeDependent
from bnaudit.reading.onnx.names import LayerNames, module_name

CONSTANTS = {"ratio": np.float32(0.3), "true": np.array(True), "false": np.array(False)}


def dropout_of(written: onnx.NodeProto, opset: int, folder: Path, **inputs: Any) -> ModeDependent:
    proto = model([written], CONSTANTS, inputs={"x": IMAGE, **inputs}, opset=opset, domains={"com.microsoft": 1})
    (entry,) = part_of(proto, folder).mode_dependent
    assert entry.kind == "dropout"
    assert entry.training is None
    return entry


@pytest.mark.parametrize("opset", range(1, 25))
def test_dropout_drops_in_its_training_form_of_each_opset(opset: int, tmp_path: Path) -> None:
    """Defaults and forms as onnx/docs/Changelog.md has them."""
    forms: list[tuple[onnx.NodeProto, bool, float]]
    if opset < 7:
        forms = [
            (node("Dropout", ["x"]), True, 0.5),
            (node("Dropout", ["x"], is_test=0, ratio=0.25), True, 0.25),
            (node("Dropout", ["x"], is_test=1, ratio=0.25), False, 0.25),
        ]
    elif opset < 12:
        forms = [(node("Dropout", ["x"]), False, 0.5), (node("Dropout", ["x"], ["y", "mask"], ratio=0.1), False, 0.1)]
    else:
        forms = [
            (node("Dropout", ["x"]), False, 0.5),
            (node("Dropout", ["x", "ratio"]), False, 0.3),
            (node("Dropout", ["x", "ratio", "false"]), False, 0.3),
            (node("Dropout", ["x", "ratio", "true"]), True, 0.3),
            (node("Dropout", ["x", "", "true"]), True, 0.5),
        ]
    for written, training, probability in forms:
        entry = dropout_of(written, opset, tmp_path)
        assert (entry.graph_training, entry.probability) == (training, probability)


def test_a_mode_that_the_run_decides_is_unknown(tmp_path: Path) -> None:
    entry = dropout_of(node("Dropout", ["x", "ratio", "mode"]), 17, tmp_path, mode=())
    assert entry.graph_training is None


def test_a_mode_through_constant_nodes_is_known(tmp_path: Path) -> None:
    nodes = [
        node("Constant", [], ["t"], value=numpy_helper.from_array(np.array(1.0, np.float32))),
        node("Cast", ["t"], ["mode"], to=onnx.TensorProto.BOOL),
        node("Dropout", ["x", "", "mode"], name="drop"),
    ]
    (entry,) = part_of(model(nodes), tmp_path).mode_dependent
    assert (entry.name, entry.graph_training) == ("drop", True)


@pytest.mark.parametrize(
    ("operator", "operands"),
    [
        ("BiasDropout", ["x", "x", "", "ratio", "true"]),
        ("BitmaskBiasDropout", ["x", "x", "", "ratio", "true"]),
        ("BitmaskDropout", ["x", "ratio", "true"]),
    ],
)
def test_onnx_runtimes_fused_dropouts(operator: str, operands: list[str], tmp_path: Path) -> None:
    entry = dropout_of(node(operator, operands, domain="com.microsoft"), 17, tmp_path)
    assert (entry.graph_training, entry.probability, entry.class_name) == (True, 0.3, f"com.microsoft.{operator}")


def test_recurrent_layers_have_no_mode(tmp_path: Path) -> None:
    written = node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)
    proto = model([written], {"w": np.ones((1, 8, 3), np.float32), "r": np.ones((1, 8, 2), np.float32)})
    assert part_of(proto, tmp_path).mode_dependent == ()


@pytest.mark.parametrize(
    ("parameters", "module"),
    [
        (["layer1.0.bn1.weight", "layer1.0.bn1.bias", "layer1.0.bn1.running_mean"], "layer1.0.bn1"),
        (["layer1.0.bn1.running_var"], "layer1.0.bn1"),
        (["weight", "bias"], ""),
        (["bn1.running_mean", "bn1.running_var", "shared.weight", "shared.bias", "bn1.scale"], "bn1"),
        (["conv1_bn_scale", "conv1_bn_offset", "conv1_bn_mean", "conv1_bn_variance"], "conv1_bn"),
        (["conv1/bn_scale_0", "conv1/bn_bias_0", "conv1/bn_mean_0", "conv1/bn_var_0"], "conv1/bn"),
        (["gpu_0/res_bn_s_0", "gpu_0/res_bn_b_0", "gpu_0/res_bn_rm_0", "gpu_0/res_bn_riv_0"], "gpu_0/res_bn"),
        (["net/bn/gamma:0", "net/bn/beta:0", "net/bn/moving_mean:0"], "net/bn"),
        (["net/bn/ReadVariableOp:0", "net/bn/ReadVariableOp_1:0", "net/bn/Fused/ReadVariableOp:0"], "net/bn"),
        (["onnx::Mul_46", "onnx::Add_47"], ""),
        (["123", "124", "125", "126"], ""),
        (["val_3", "val_7"], ""),
        (["/0/Constant_output_0", "/0/Constant_1_output_0"], ""),
        (["scale", "other"], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_module_names_come_from_the_parameters(parameters: list[str], module: str) -> None:
    assert module_name(parameters) == module


def test_names_are_unique_whatever_they_look_like() -> None:
    names = LayerNames()
    given = [names.unique(name) for name in ("bn", "bn", "bn#2", "bn", "bn#2", "")]
    assert given[:2] == ["bn", "bn#2"]
    assert len(set(given)) == len(given)


def test_without_named_parameters_the_node_or_its_output_gives_the_name(tmp_path: Path) -> None:
    affine = {"1": GAMMA, "2": BETA}
    nodes = [
        node("InstanceNormalization", ["x", "1", "2"], ["a"], name="stem/norm"),
        node("InstanceNormalization", ["a", "1", "2"], ["out"]),
    ]
    layers = part_of(model(nodes, affine, outputs=("out",)), tmp_path).layers
    assert [layer.name for layer in layers] == ["stem/norm", "out"]


@pytest.mark.parametrize(
    ("name", "scopes", "expected"),
    [
        ("/norm/InstanceNormalization", "", "norm"),
        ("/layer1/layer1.0/norm/InstanceNormalization", "", "layer1.0.norm"),
        ("/encoder/layers.3/norm/InstanceNormalization", "", "encoder.layers.3.norm"),
        ("/InstanceNormalization", "", "/InstanceNormalization"),
        ("node_instance_norm", "['', 'stem', 'stem.norm', 'instance_norm']", "stem.norm"),
        ("node_instance_norm", "['', 'instance_norm']", "node_instance_norm"),
        ("node_instance_norm", "['instance_norm']", "node_instance_norm"),
    ],
)
def test_the_module_that_an_exporter_notes_gives_the_name(
    name: str, scopes: str, expected: str, tmp_path: Path
) -> None:
    written = node("InstanceNormalization", ["x", "1", "2"], name=name)
    if scopes:
        written.metadata_props.add(key="namespace", value="other")
        written.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    (layer,) = part_of(model([written], {"1": GAMMA, "2": BETA}), tmp_path).layers
    assert layer.name == expected


def test_layers_whose_equal_parameters_are_stored_once_keep_their_names(tmp_path: Path) -> None:
    nodes, current = [], "x"
    for name in ("norm1", "norm2", "norm2"):
        nodes.append(
            node("BatchNormalization", [current, *PARAMETERS], [f"{current}'"], name=f"/{name}/BatchNormalization")
        )
        current += "'"
    names = [layer.name for layer in part_of(model(nodes, PARAMETERS, outputs=(current,)), tmp_path).layers]
    assert names == ["bn", "norm2", "norm2#2"]


def convolutions(count: int, biased: int, bias: str = "c{}.bias") -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    nodes, arrays, current = [], {}, "x"
    for index in range(count):
        arrays[f"c{index}.weight"] = np.ones((4, 4, 1, 1), np.float32)
        operands = [current, f"c{index}.weight"]
        if index < biased:
            arrays[bias.format(index)] = BETA
            operands.append(bias.format(index))
        nodes.append(node("Conv", operands, [f"h{index}"]))
        current = f"h{index}"
    return nodes, arrays


def test_convolutions_with_a_bias_and_no_norm_are_evidence_of_folding(tmp_path: Path) -> None:
    nodes, arrays = convolutions(5, 5)
    part = part_of(model(nodes, arrays, outputs=("h4",)), tmp_path)
    assert part.layers == ()
    assert part.folded == "5 of 5 convolutions carry a bias and no norm node is left; producer builder"


@pytest.mark.parametrize("bias", ["onnx::Conv_{}", "c{}.weight_bias"])
def test_names_that_exporters_give_to_folded_weights_are_mentioned(bias: str, tmp_path: Path) -> None:
    nodes, arrays = convolutions(5, 4, bias)
    folded = part_of(model(nodes, arrays, outputs=("h4",)), tmp_path).folded
    assert folded.startswith("4 of 5 convolutions carry a bias, 4 of them under names that an exporter gives")


@pytest.mark.parametrize(("count", "biased"), [(5, 2), (2, 2), (0, 0)])
def test_few_biases_or_few_convolutions_are_no_evidence(count: int, biased: int, tmp_path: Path) -> None:
    nodes, arrays = convolutions(count, biased)
    nodes.append(node("Relu", [f"h{count - 1}" if count else "x"]))
    assert part_of(model(nodes, arrays), tmp_path).folded == ""


@pytest.mark.parametrize("bias", ["onnx::Conv_{}", "c{}.weight_bias"])
def test_one_bias_that_an_exporter_made_is_evidence_beside_a_norm_of_another_kind(bias: str, tmp_path: Path) -> None:
    nodes, arrays = convolutions(2, 1, bias)
    nodes.append(node("LayerNormalization", ["h1", "gamma", "beta"]))
    part = part_of(model(nodes, {**arrays, "gamma": GAMMA, "beta": BETA}), tmp_path)
    assert len(part.layers) == 1
    assert part.folded == (
        "1 of 2 convolutions carry a bias, 1 of them under names that an exporter gives to folded weights and "
        "no batch norm is left; producer builder"
    )


def test_zeros_that_the_dynamo_exporter_expands_into_a_bias_are_no_evidence(tmp_path: Path) -> None:
    nodes, arrays = convolutions(3, 3)
    for index in range(3):
        arrays.pop(f"c{index}.bias")
    arrays |= {"zero": np.float32(0), "shape": np.array([4])}
    expanded = [node("Expand", ["zero", "shape"], [f"c{index}.bias"]) for index in range(3)]
    part = part_of(model([*expanded, *nodes], arrays, outputs=("h2",)), tmp_path)
    assert part.operators == 6 and part.folded == ""


def test_biases_beside_a_norm_of_another_kind_are_no_evidence_by_themselves(tmp_path: Path) -> None:
    nodes, arrays = convolutions(5, 5)
    nodes.append(node("LayerNormalization", ["h4", "gamma", "beta"]))
    assert part_of(model(nodes, {**arrays, "gamma": GAMMA, "beta": BETA}), tmp_path).folded == ""


def test_a_graph_with_norms_is_not_folded(tmp_path: Path) -> None:
    nodes, arrays = convolutions(5, 5)
    nodes.append(node("BatchNormalization", ["h4", *PARAMETERS]))
    assert part_of(model(nodes, {**arrays, **PARAMETERS}), tmp_path).folded == ""


def test_the_part_counts_tensors_operators_and_floating_types(tmp_path: Path) -> None:
    nodes = [
        node("Constant", [], ["k"], value=numpy_helper.from_array(np.float64(2))),
        node("Constant", [], ["h"], value=numpy_helper.from_array(np.zeros(3, np.float16))),
        node("Constant", [], ["i"], value_int=3),
        node("Mul", ["x", "w"]),
    ]
    part = part_of(model(nodes, {"w": GAMMA, "n": np.array([1])}), tmp_path)
    assert (part.tensors, part.operators, part.floating_dtypes) == (4, 4, ("float16", "float32"))


def test_inputs_are_what_the_caller_gives(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"x": ("N", 3, None, 8), "any": None, "w": (4,), "scalar": (), "free": (0, -1)}
    proto = model([node("Mul", ["x", "w"])], {"w": GAMMA}, inputs=inputs)
    proto.graph.input.append(helper.make_tensor_sequence_value_info("list", onnx.TensorProto.FLOAT, None))
    found = [(entry.name, entry.dtype, entry.shape) for entry in describe(proto, tmp_path).parts[0].inputs]
    assert found == [
        ("x", "float32", ("N", 3, None, 8)),
        ("any", "float32", None),
        ("scalar", "float32", ()),
        ("free", "float32", (None, None)),
        ("list", "sequence", None),
    ]
