"""Convolutions and linear layers of every format: what is said of them, and that only one weight is read at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from folded_layers import folds_of
from onnx import TensorProto, helper, numpy_helper

from bnaudit.auditing import describe
from bnaudit.caps import Caps
from bnaudit.comparison import FoldCause, LinearLayer
from bnaudit.errors import CapExceededError, UnreadableError
from bnaudit.linear_layers import linear_layers

HEALTHY = Path(__file__).parent.parent / "sample_models" / "healthy"
FOLDED = ("norms_folded.onnx", "torchscript_frozen.pt")
KEPT = sorted(path.name for path in HEALTHY.iterdir() if path.name not in FOLDED and not path.name.startswith("."))


def layers_of(path: Path) -> list[LinearLayer]:
    with linear_layers(path, describe(path).parts[0], Caps()) as layers:
        return list(layers)


@pytest.mark.parametrize("folded", FOLDED)
@pytest.mark.parametrize("kept", KEPT)
def test_every_healthy_sample_is_equal_to_the_folded_ones(kept: str, folded: str) -> None:
    found = folds_of(HEALTHY / folded, HEALTHY / kept)
    assert found is not None
    assert [fold.cause for fold in found.folds] == [FoldCause.EQUAL] * 6
    assert (found.unfound, found.remarks) == ((), ())


@pytest.mark.parametrize("kept", KEPT)
def test_all_formats_have_the_same_layers(kept: str) -> None:
    stored = torch.load(HEALTHY / "state_dict.pt", weights_only=True)
    part = describe(HEALTHY / kept).parts[0]
    with linear_layers(HEALTHY / kept, part, Caps()) as layers:
        assert len(layers) == 7
        for layer in layers:
            name = layer.name.removeprefix("model.")
            expected = stored[f"{name}.weight"].numpy()
            weight = layer.weight.load()
            assert np.array_equal(weight.T if layer.output_last else weight, expected)
            assert (layer.bias is not None) == (f"{name}.bias" in stored)


def graph(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], path: Path, **save: object) -> Path:
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)]), path, **save)  # type: ignore[arg-type]
    return path


def norm_node(data: str, output: str) -> onnx.NodeProto:
    return helper.make_node("BatchNormalization", [data, "g", "b", "m", "v"], [output], name=f"bn_{output}")


NORM = {"g": np.ones(4), "b": np.zeros(4), "m": np.zeros(4), "v": np.ones(4)}
NORM = {name: value.astype("f4") for name, value in NORM.items()}
WEIGHT = np.random.default_rng(0).normal(size=(4, 4, 1, 1)).astype("f4")


def test_topology_of_a_graph(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Identity", ["c"], ["i"]),
        norm_node("i", "n"),
        helper.make_node("Conv", ["n", "w2"], ["d"], name="conv2", group=2),
        helper.make_node("Relu", ["d"], ["r"]),
        norm_node("r", "y"),
    ]
    first, second = layers_of(graph(nodes, {**NORM, "w": WEIGHT, "w2": WEIGHT[:, :2]}, tmp_path / "net.onnx"))
    assert (first.norm_after, first.norm_before, first.padded, first.groups) == ("bn_n", None, True, 1)
    assert (second.norm_after, second.norm_before, second.padded, second.groups) == (None, "bn_n", False, 2)
    assert (second.next_norm, second.previous_norm) == ("bn_y", "bn_n")


def test_an_output_that_others_use_has_no_norm_of_its_own(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        norm_node("c", "n"),
        helper.make_node("Add", ["c", "n"], ["y"]),
    ]
    (layer,) = layers_of(graph(nodes, {**NORM, "w": WEIGHT}, tmp_path / "net.onnx"))
    assert layer.norm_after is None


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_weights_of_other_types_behind_a_cast(dtype: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["w"], ["w32"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["x", "w32"], ["y"], name="conv"),
    ]
    path = graph(nodes, {"w": WEIGHT.astype(dtype)}, tmp_path / "net.onnx")
    with linear_layers(path, describe(path).parts[0], Caps()) as (layer,):
        assert layer.weight.dtype == dtype
        assert np.array_equal(layer.weight.load(), WEIGHT.astype(dtype))


def test_products_are_read_the_way_they_multiply(tmp_path: Path) -> None:
    weight, bias = np.arange(8, dtype="f4").reshape(4, 2), np.arange(2, dtype="f4")
    square = np.eye(2, dtype="f4")
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["p"], name="product"),
        helper.make_node("Add", ["bias", "p"], ["a"]),
        helper.make_node("Gemm", ["a", "square", "bias"], ["q"], name="gemm", transB=1),
        helper.make_node("Gemm", ["q", "square"], ["s"], name="scaled", alpha=2.0),
        helper.make_node("Transpose", ["square"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["s", "t"], ["y"], name="turned"),
    ]
    path = graph(nodes, {"w": weight, "bias": bias, "square": square}, tmp_path / "net.onnx")
    with linear_layers(path, describe(path).parts[0], Caps()) as layers:
        product, gemm, turned = layers
        assert product.bias is not None and np.array_equal(product.bias.load(), bias)
    assert [layer.output_last for layer in (product, gemm, turned)] == [True, False, False]
    assert {layer.operator for layer in layers} == {"linear"}


def test_external_data_is_read_where_it_is(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")]
    save = {"save_as_external_data": True, "location": "net.bin", "size_threshold": 0}
    path = graph(nodes, {"w": WEIGHT}, tmp_path / "net.onnx", **save)
    with linear_layers(path, describe(path).parts[0], Caps()) as (layer,):
        assert np.array_equal(layer.weight.load(), WEIGHT)
        (tmp_path / "net.bin").unlink()
    with linear_layers(path, describe(path).parts[0], Caps()) as (layer,), pytest.raises(UnreadableError):
        layer.weight.load()


def test_a_weight_beyond_the_cap_is_a_remark_and_no_failure(tmp_path: Path) -> None:
    with (
        linear_layers(
            HEALTHY / "state_dict.pt", describe(HEALTHY / "state_dict.pt").parts[0], Caps(value_bytes=100)
        ) as (
            first,
            *_,
        ),
        pytest.raises(CapExceededError),
    ):
        first.weight.load()


def test_weights_that_are_read_one_by_one_are_not_added_up() -> None:
    path = HEALTHY / "state_dict.pt"
    with linear_layers(path, describe(path).parts[0], Caps(tensor_bytes=20_000)) as layers:
        assert sum(layer.weight.load().nbytes for layer in layers) > 20_000


def test_numbers_of_a_keras_layer_have_their_outputs_last(tmp_path: Path) -> None:
    kernel = np.zeros((3, 3, 4, 8), "f4")
    np.savez(tmp_path / "keras.npz", **{"conv/kernel": kernel, "conv/bias": np.zeros(8, "f4"), "table": kernel})
    (layer,) = layers_of(tmp_path / "keras.npz")
    assert (layer.name, layer.output_last, layer.bias is not None) == ("conv", True, True)
