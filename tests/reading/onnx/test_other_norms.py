"""Norms within a sample: which operator is which, with its parameters and the default epsilon of its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_builders import BETA, GAMMA, layer_of, layers_of, model, node
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from bnaudit.description import NormKind
from bnaudit.reading.onnx.other_norms import OPERATORS

SEQUENCE = ("N", "T", 4)
AFFINE = {"ln.weight": GAMMA, "ln.bias": BETA}


def named(operator: str, inputs: list[str], **attributes: Any) -> onnx.NodeProto:
    domain, _, name = operator.rpartition(".")
    return node(name, inputs, domain=domain, **attributes)


def inputs_of(operator: str) -> list[str]:
    """`x` for every operand, and the parameters where the schema puts them."""
    entry = OPERATORS[operator]
    places = {entry.weight: "ln.weight", entry.bias: "ln.bias"}
    last = max((place for place in places if place is not None), default=0)
    return [places.get(index, "x") for index in range(last + 1)]


def schemas(operator: str) -> list[Any]:
    domain, _, name = operator.rpartition(".")
    return [schema for schema in get_all_operator_schema() if (schema.name, schema.domain) == (name, domain)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_epsilon_defaults_and_places_are_those_of_the_runtime(operator: str) -> None:
    entry = OPERATORS[operator]
    found = schemas(operator)
    if not found:
        pytest.skip("this runtime does not register the operator")
    for schema in found:
        default = onnx.AttributeProto.FromString(schema.attributes["epsilon"]._default_value)
        assert default.f == pytest.approx(entry.eps, rel=1e-6)
        names = [each.name.lower() for each in schema.inputs]
        assert entry.weight is None or names[entry.weight] in ("scale", "gamma")
        assert entry.bias is None or names[entry.bias] in ("b", "bias", "beta")


KINDS = {
    "InstanceNormalization": NormKind.INSTANCE,
    "GroupNormalization": NormKind.GROUP,
    "LayerNormalization": NormKind.LAYER,
    "RMSNormalization": NormKind.RMS,
    "SimplifiedLayerNormalization": NormKind.RMS,
    "com.microsoft.SkipLayerNormalization": NormKind.LAYER,
    "com.microsoft.SkipSimplifiedLayerNormalization": NormKind.RMS,
    "com.microsoft.EmbedLayerNormalization": NormKind.LAYER,
    "com.microsoft.GroupNorm": NormKind.GROUP,
    "com.microsoft.SkipGroupNorm": NormKind.GROUP,
}


@pytest.mark.parametrize(("operator", "kind"), KINDS.items())
def test_operators_are_read_with_their_parameters(operator: str, kind: NormKind, tmp_path: Path) -> None:
    written = named(operator, inputs_of(operator), epsilon=0.25)
    layer = layer_of(model([written], AFFINE, inputs={"x": SEQUENCE}, domains={"com.microsoft": 1}), tmp_path)
    assert (layer.kind, layer.class_name, layer.name, layer.eps) == (kind, operator, "ln", 0.25)
    assert layer.weight is not None
    assert layer.weight.values is not None
    assert layer.weight.values.tolist() == GAMMA.tolist()
    assert (layer.bias is None) is (OPERATORS[operator].bias is None)
    assert (layer.tracks_statistics, layer.statistics_from_input, layer.graph_training) == (False, None, None)
    assert layer.running_mean is None


@pytest.mark.parametrize(
    ("operator", "attributes", "shape", "channels"),
    [
        ("InstanceNormalization", {}, ("N", 4, 8, 8), 4),
        ("GroupNormalization", {"num_groups": 2}, ("N", 4, 8, 8), 4),
        ("LayerNormalization", {}, SEQUENCE, 4),
        ("LayerNormalization", {"axis": 1}, SEQUENCE, None),
        ("RMSNormalization", {}, SEQUENCE, 4),
        ("com.microsoft.GroupNorm", {"groups": 2}, ("N", 8, 8, 4), 4),
        ("com.microsoft.GroupNorm", {"groups": 2, "channels_last": 0}, ("N", 4, 8, 8), 4),
        ("com.ms.internal.nhwc.InstanceNormalization", {}, ("N", 8, 8, 4), 4),
        ("LayerNormalization", {}, None, None),
    ],
)
def test_channels_are_the_size_of_the_channel_axis(
    operator: str, attributes: dict[str, Any], shape: Any, channels: int | None, tmp_path: Path
) -> None:
    written = named(operator, inputs_of(operator), **attributes)
    domains = {"com.microsoft": 1, "com.ms.internal.nhwc": 17}
    layer = layer_of(model([written], AFFINE, inputs={"x": shape}, domains=domains), tmp_path)
    assert layer.declared_channels == channels


def test_a_layer_norm_without_bias(tmp_path: Path) -> None:
    proto = model([node("LayerNormalization", ["x", "ln.weight"])], AFFINE, inputs={"x": SEQUENCE})
    layer = layer_of(proto, tmp_path)
    assert (layer.affine, layer.bias, layer.eps) == (True, None, 1e-5)


def test_a_norm_of_weights_alone_is_no_layer(tmp_path: Path) -> None:
    nodes = [node("LayerNormalization", ["w", "ln.weight"], ["n"]), node("MatMul", ["x", "n"])]
    assert layers_of(model(nodes, {**AFFINE, "w": np.eye(4, dtype=np.float32)}, inputs={"x": SEQUENCE}), tmp_path) == ()


@pytest.mark.parametrize(
    ("operator", "attributes", "opset", "shape", "kind", "from_input"),
    [
        ("MeanVarianceNormalization", {}, 13, ("N", 4, 8, 8), NormKind.BATCH, True),
        ("MeanVarianceNormalization", {}, 13, (2, 4, 8, 8), NormKind.UNKNOWN, None),
        ("MeanVarianceNormalization", {"axes": [2, 3]}, 13, ("N", 4, 8, 8), NormKind.INSTANCE, None),
        ("MeanVarianceNormalization", {"axes": [1, 2, 3]}, 9, ("N", 4, 8, 8), NormKind.LAYER, None),
        ("MeanVarianceNormalization", {}, 8, ("N", 4, 8, 8), NormKind.BATCH, True),
        ("LpNormalization", {}, 17, SEQUENCE, NormKind.RMS, None),
        ("LpNormalization", {"axis": 0}, 17, SEQUENCE, NormKind.BATCH, True),
        ("LpNormalization", {"axis": 0}, 17, (1, 3, 4), NormKind.UNKNOWN, None),
    ],
)
def test_norms_over_axes_that_the_node_names(
    operator: str, attributes: dict[str, Any], opset: int, shape: Any, kind: NormKind, from_input: Any, tmp_path: Path
) -> None:
    layer = layer_of(model([node(operator, ["x"], **attributes)], inputs={"x": shape}, opset=opset), tmp_path)
    assert (layer.kind, layer.statistics_from_input, layer.affine) == (kind, from_input, False)
    assert layer.tracks_statistics is (None if kind is NormKind.UNKNOWN else False)


def group_norm(*, behind: bool = True) -> list[onnx.NodeProto]:
    nodes = [
        node("Reshape", ["x", "groups"], ["g"]),
        node("InstanceNormalization", ["g", "one", "zero"], ["n"], epsilon=1e-3),
        node("Shape", ["x"], ["s"]),
        node("Reshape", ["n", "s"], ["r"]),
        node("Unsqueeze", ["gn.weight", "axes"], ["w"]),
        node("Mul", ["r", "w"], ["m"]),
        node("Unsqueeze", ["gn.bias", "axes"], ["b"]),
        node("Add", ["m", "b"]),
    ]
    return nodes if behind else [*nodes[:3], node("Reshape", ["n", "s"], ["y"])]


def constants(scale: Any = (1, 1), bias: Any = (0, 0)) -> dict[str, Any]:
    return {
        "groups": np.array([0, 2, -1]),
        "axes": np.array([1, 2]),
        "one": np.array(scale, np.float32),
        "zero": np.array(bias, np.float32),
        "gn.weight": GAMMA,
        "gn.bias": BETA,
    }


def test_a_group_norm_in_the_exporters_words(tmp_path: Path) -> None:
    layer = layer_of(model(group_norm(), constants()), tmp_path)
    assert (layer.kind, layer.name, layer.eps, layer.declared_channels) == (NormKind.GROUP, "gn", 1e-3, 4)
    assert layer.weight is not None
    assert (layer.weight.name, layer.weight.shape) == ("gn.weight", (4,))
    assert layer.gamma is not None
    assert layer.gamma.tolist() == GAMMA.tolist()
    assert layer.beta is not None
    assert layer.beta.tolist() == BETA.tolist()


def test_a_group_norm_without_parameters(tmp_path: Path) -> None:
    layer = layer_of(model(group_norm(behind=False), constants()), tmp_path)
    assert (layer.kind, layer.affine, layer.weight) == (NormKind.GROUP, False, None)


def test_an_instance_norm_with_its_own_scale_between_views_stays_one(tmp_path: Path) -> None:
    layer = layer_of(model(group_norm(), constants(scale=(2, 1))), tmp_path)
    assert layer.kind is NormKind.INSTANCE
