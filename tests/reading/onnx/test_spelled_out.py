"""Norms written with reductions, and the many reductions that are no norm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_builders import BETA, GAMMA, describe, layer_of, layers_of, model, node

from bnaudit.description import NormKind, NormLayer

CONSTANTS = {
    "two": np.float32(2),
    "half": np.float32(0.5),
    "minus half": np.float32(-0.5),
    "one": np.float32(1),
    "eps": np.float32(1e-3),
    "n.weight": GAMMA,
    "n.bias": BETA,
    "weight 4d": GAMMA.reshape(1, 4, 1, 1),
    "bias 4d": BETA.reshape(1, 4, 1, 1),
    "bessel": np.float32(64 / 63),
}
IMAGE = ("N", 4, 8, 8)
SEQUENCE = ("N", "T", 4)


def norm(
    axes: Sequence[int],
    *,
    data: str = "x",
    root: str = "Sqrt",
    square: str = "Pow",
    centred: bool = True,
    affine: str = "",
    bessel: bool = False,
) -> list[onnx.NodeProto]:
    """x − mean, mean of squares, + eps, root, division, as exporters write it; `affine` 4d or flat adds Mul and Add."""
    deviation = "d" if centred else data
    nodes = [node("ReduceMean", [data], ["mean"], axes=axes), node("Sub", [data, "mean"], ["d"])] if centred else []
    nodes += [
        node("Pow", [deviation, "two"], ["s"]) if square == "Pow" else node("Mul", [deviation, deviation], ["s"]),
        node("ReduceMean", ["s"], ["v0"], axes=axes),
        node("Mul", ["v0", "bessel"], ["v"]) if bessel else node("Identity", ["v0"], ["v"]),
        node("Add", ["v", "eps"], ["ve"]),
    ]
    root_of = [node("Sqrt", ["ve"], ["q"])]
    nodes += {
        "Sqrt": [node("Sqrt", ["ve"], ["r"]), node("Div", [deviation, "r"], ["z"])],
        "Pow": [node("Pow", ["ve", "half"], ["r"]), node("Div", [deviation, "r"], ["z"])],
        "inverse Pow": [node("Pow", ["ve", "minus half"], ["r"]), node("Mul", [deviation, "r"], ["z"])],
        "Reciprocal": [*root_of, node("Reciprocal", ["q"], ["r"]), node("Mul", ["r", deviation], ["z"])],
        "Div": [*root_of, node("Div", ["one", "q"], ["r"]), node("Mul", [deviation, "r"], ["z"])],
    }[root]  # fmt: skip
    weight, bias = {"4d": ("weight 4d", "bias 4d"), "flat": ("n.weight", "n.bias"), "": ("", "")}[affine]
    if weight:
        return [*nodes, node("Mul", ["z", weight], ["zw"]), node("Add", ["zw", bias])]
    return [*nodes, node("Identity", ["z"])]


def described(nodes: list[onnx.NodeProto], folder: Path, shape: Any = IMAGE, **more: Any) -> NormLayer:
    return layer_of(model(nodes, {**CONSTANTS, **more}, inputs={"x": shape}), folder)


@pytest.mark.parametrize("root", ["Sqrt", "Pow", "inverse Pow", "Reciprocal", "Div"])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_layer_norm_in_every_spelling(root: str, square: str, tmp_path: Path) -> None:
    layer = described(norm([-1], root=root, square=square, affine="flat"), tmp_path, SEQUENCE)
    assert (layer.kind, layer.spelled_out, layer.name, layer.eps) == (NormKind.LAYER, True, "n", 1e-3)
    assert (layer.statistics_from_input, layer.tracks_statistics, layer.declared_channels) == (None, False, 4)
    assert layer.gamma is not None
    assert layer.gamma.tolist() == GAMMA.tolist()
    assert layer.beta is not None
    assert layer.beta.tolist() == BETA.tolist()


def test_rms_norm_has_no_mean(tmp_path: Path) -> None:
    nodes = [*norm([-1], centred=False, root="Reciprocal")[:-1], node("Mul", ["z", "n.weight"])]
    layer = described(nodes, tmp_path, SEQUENCE)
    assert (layer.kind, layer.spelled_out, layer.name, layer.bias) == (NormKind.RMS, True, "n", None)


@pytest.mark.parametrize("bessel", [False, True])
@pytest.mark.parametrize("root", ["Sqrt", "inverse Pow", "Div"])
def test_a_norm_over_a_free_batch_axis_takes_its_statistics_from_the_input(
    bessel: bool, root: str, tmp_path: Path
) -> None:
    layer = described(norm([0, 2, 3], root=root, bessel=bessel, affine="4d"), tmp_path)
    assert (layer.kind, layer.spelled_out, layer.statistics_from_input) == (NormKind.BATCH, True, True)
    assert (layer.eps, layer.declared_channels) == (1e-3, 4)
    assert layer.weight is not None
    assert layer.weight.shape == (4,)


def test_mean_of_squares_minus_square_of_the_mean(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=[0, 2, 3]),
        node("Mul", ["x", "x"], ["xx"]),
        node("ReduceMean", ["xx"], ["q"], axes=[0, 2, 3]),
        node("Mul", ["m", "m"], ["mm"]),
        node("Sub", ["q", "mm"], ["v"]),
        node("Add", ["v", "eps"], ["ve"]),
        node("Sqrt", ["ve"], ["r"]),
        node("Sub", ["x", "m"], ["d"]),
        node("Div", ["d", "r"]),
    ]
    layer = described(nodes, tmp_path)
    assert (layer.kind, layer.statistics_from_input, layer.eps) == (NormKind.BATCH, True, 1e-3)


def test_the_spelling_of_tensorflow_scales_before_it_subtracts(tmp_path: Path) -> None:
    """tf.nn.batch_normalization: x·inv + (beta − mean·inv) with inv = gamma·rsqrt(variance + epsilon)."""
    nodes = [
        *norm([0, 2, 3])[:5],
        node("Add", ["v", "eps"], ["ve"]),
        node("Sqrt", ["ve"], ["q"]),
        node("Reciprocal", ["q"], ["r"]),
        node("Mul", ["r", "weight 4d"], ["inv"]),
        node("Mul", ["x", "inv"], ["scaled"]),
        node("Mul", ["mean", "inv"], ["mi"]),
        node("Sub", ["bias 4d", "mi"], ["shift"]),
        node("Add", ["scaled", "shift"]),
    ]
    layer = described(nodes, tmp_path)
    assert (layer.kind, layer.statistics_from_input) == (NormKind.BATCH, True)
    assert layer.gamma is not None
    assert layer.gamma.tolist() == GAMMA.tolist()


FIXED = (2, 4, 8, 8)


@pytest.mark.parametrize(
    ("axes", "shape", "front", "constants", "kind"),
    [
        ([0, 2, 3], FIXED, [], {}, NormKind.UNKNOWN),
        ([2, 3], IMAGE, [], {}, NormKind.INSTANCE),
        ([1], IMAGE, [], {}, NormKind.LAYER),
        ([1, 2, 3], IMAGE, [], {}, NormKind.LAYER),
        ([-3, -2, -1], IMAGE, [], {}, NormKind.LAYER),
        ([-4, -2, -1], IMAGE, [], {}, NormKind.BATCH),
        ([0], IMAGE, [], {}, NormKind.BATCH),
        ([0, 2, 3], IMAGE, [node("Conv", ["x", "w"], ["h"])], {"w": np.ones((4, 4, 1, 1), np.float32)}, NormKind.BATCH),
        ([1], IMAGE, [node("Transpose", ["x"], ["h"], perm=[2, 0, 1, 3])], {}, NormKind.LAYER),
        ([0], IMAGE, [node("Transpose", ["x"], ["h"], perm=[2, 0, 1, 3])], {}, NormKind.UNKNOWN),
        ([0], IMAGE, [node("Reshape", ["x", "view"], ["h"])], {"view": np.array([1, -1, 8, 8])}, NormKind.INSTANCE),
        ([0], IMAGE, [node("Reshape", ["x", "view"], ["h"])], {"view": np.array([-1, 256])}, NormKind.BATCH),
        ([0], IMAGE, [node("Flatten", ["x"], ["h"])], {}, NormKind.BATCH),
        ([2], IMAGE, [node("Reshape", ["x", "view"], ["h"])], {"view": np.array([0, 2, -1])}, NormKind.GROUP),
        ([0], IMAGE, [node("Mystery", ["x"], ["h"], domain="other")], {}, NormKind.UNKNOWN),
        ([0], IMAGE, [node("GlobalAveragePool", ["x"], ["p"]), node("Squeeze", ["p", "last"], ["h"])],
         {"last": np.array([2, 3])}, NormKind.BATCH),
        ([0], IMAGE, [node("Unsqueeze", ["x", "first"], ["h"])], {"first": np.array([0])}, NormKind.INSTANCE),
        ([1], IMAGE, [node("Unsqueeze", ["x", "first"], ["h"])], {"first": np.array([0])}, NormKind.LAYER),
    ],
)  # fmt: skip
def test_what_is_normalized_over_follows_the_axis_back_to_the_input(
    axes: list[int], shape: Any, front: list[onnx.NodeProto], constants: dict[str, Any], kind: NormKind, tmp_path: Path
) -> None:
    nodes = [*front, *norm(axes, data="h" if front else "x")]
    proto = model(nodes, {**CONSTANTS, **constants}, inputs={"x": shape}, domains={"other": 1})
    layer = layer_of(proto, tmp_path)
    assert layer.kind is kind
    assert layer.statistics_from_input is (True if kind is NormKind.BATCH else None)
    assert layer.tracks_statistics is (None if kind is NormKind.UNKNOWN else False)


TIME_FIRST = node("Transpose", ["x"], ["turned"], perm=[1, 0, 2])


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize(
    ("layout", "behind", "kind"),
    [
        (0, [node("Squeeze", ["steps", "1"], ["t"]), node("Transpose", ["t"], ["h"], perm=[1, 0, 2])], NormKind.BATCH),
        (0, [node("Squeeze", ["steps", "1"], ["h"])], NormKind.UNKNOWN),  # the first axis is time
        (0, [node("Squeeze", ["last", "0"], ["h"])], NormKind.BATCH),
        (0, [node("Identity", ["last"], ["h"])], NormKind.UNKNOWN),  # the directions
        (1, [node("Identity", ["steps"], ["h"])], NormKind.BATCH),
        (1, [node("Squeeze", ["last", "1"], ["h"])], NormKind.BATCH),
    ],
)
def test_the_batch_axis_is_followed_through_recurrent_layers(
    operator: str,
    gates: int,
    layout: int,
    behind: list[onnx.NodeProto],
    kind: NormKind,
    tmp_path: Path,
) -> None:
    """Against the shapes that the specification of ONNX gives: layout 0 has time first, layout 1 the batch."""
    given = ["x" if layout else "turned", "W", "R"]
    layer_itself = node(operator, given, ["steps", "last"], hidden_size=4, layout=layout)
    nodes = [*([] if layout else [TIME_FIRST]), layer_itself, *behind, *norm([0], data="h")]
    weights = {name: np.ones((1, 4 * gates, 4), np.float32) for name in "WR"}
    layer = described(nodes, tmp_path, SEQUENCE, **weights, **{"0": np.array([0]), "1": np.array([1])})
    assert layer.kind is kind
    assert layer.statistics_from_input is (True if kind is NormKind.BATCH else None)


def test_a_batch_size_that_the_graph_reads_from_the_input_is_followed(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "zero"], ["size"]),
        node("Unsqueeze", ["size", "first"], ["front"]),
        node("Concat", ["front", "rest"], ["view"], axis=0),
        node("Reshape", ["x", "view"], ["h"]),
        *norm([0], data="h"),
    ]
    layer = described(nodes, tmp_path, zero=np.int64(0), first=np.array([0]), rest=np.array([-1]))
    assert (layer.kind, layer.statistics_from_input) == (NormKind.BATCH, True)


def sizes_by_slice(of: str, axes: tuple[int, int]) -> list[onnx.NodeProto]:
    return [node("Shape", [of], ["sizes"])] + [
        node("Slice", ["sizes", str(axis), str(axis + 1)], [f"size {place}"]) for place, axis in enumerate(axes)
    ]


def sizes_by_gather(of: str, axes: tuple[int, int]) -> list[onnx.NodeProto]:
    return [node("Shape", [of], ["sizes"])] + [
        made
        for place, axis in enumerate(axes)
        for made in (
            node("Gather", ["sizes", f"scalar {axis}"], [f"one {place}"]),
            node("Unsqueeze", [f"one {place}", "0"], [f"size {place}"]),
        )
    ]


JOINED = node("Concat", ["size 0", "size 1", "rest"], ["view"], axis=0)


@pytest.mark.parametrize(
    ("view", "kind"),
    [
        ([*sizes_by_slice("turned", (0, 1)), JOINED], NormKind.BATCH),
        ([*sizes_by_gather("turned", (0, 1)), JOINED], NormKind.BATCH),
        ([node("Identity", ["copied"], ["view"])], NormKind.BATCH),
        ([node("Identity", ["written"], ["view"])], NormKind.UNKNOWN),  # (4, 8, N·8): the batch is the last axis's
        ([*sizes_by_slice("turned", (1, 0)), JOINED], NormKind.UNKNOWN),
        ([*sizes_by_gather("turned", (1, 0)), JOINED], NormKind.UNKNOWN),
        ([*sizes_by_slice("x", (0, 1)), JOINED], NormKind.UNKNOWN),  # of another value
    ],
)
def test_a_view_that_keeps_its_first_axes_is_followed(
    view: list[onnx.NodeProto], kind: NormKind, tmp_path: Path
) -> None:
    nodes = [
        node("Transpose", ["x"], ["turned"], perm=[1, 0, 2, 3]),
        *view,
        node("Reshape", ["turned", "view"], ["flat"]),
        node("Transpose", ["flat"], ["h"], perm=[1, 0, 2]),
        *norm([0], data="h"),
    ]
    arrays = {str(number): np.array([number]) for number in range(3)}
    scalars = {f"scalar {number}": np.int64(number) for number in range(2)}
    views = {"copied": np.array([0, 0, -1]), "written": np.array([4, 8, -1])}
    layer = described(nodes, tmp_path, rest=np.array([-1]), **arrays, **scalars, **views)
    assert layer.kind is kind
    assert layer.statistics_from_input is (True if kind is NormKind.BATCH else None)


NO_NORMS: dict[str, list[onnx.NodeProto]] = {
    "global average pooling": [node("ReduceMean", ["x"], axes=[2, 3])],
    "a mean over the batch": [node("ReduceMean", ["x"], axes=[0])],
    "centring alone": [node("ReduceMean", ["x"], ["m"], axes=[0, 2, 3]), node("Sub", ["x", "m"])],
    "a standard deviation as a feature": [
        *norm([0, 2, 3])[:6],
        node("Sqrt", ["ve"], ["r"]),
        node("ReduceMean", ["r"], ["f"]),
        node("Concat", ["x", "f"], axis=1),
    ],
    "a norm of weights": [
        node("ReduceMean", ["w"], ["mean"], axes=[1, 2, 3]),
        node("Sub", ["w", "mean"], ["d"]),
        node("Mul", ["d", "d"], ["dd"]),
        node("ReduceMean", ["dd"], ["v"], axes=[1, 2, 3]),
        node("Add", ["v", "eps"], ["ve"]),
        node("Sqrt", ["ve"], ["r"]),
        node("Div", ["d", "r"], ["standard"]),
        node("Conv", ["x", "standard"]),
    ],
    "length one": [
        node("Mul", ["x", "x"], ["xx"]),
        node("ReduceSum", ["xx", "last"], ["s"]),
        node("Sqrt", ["s"], ["r"]),
        node("Div", ["x", "r"]),
    ],
    "attention": [
        node("MatMul", ["x", "x"], ["scores"]),
        node("Div", ["scores", "eight"], ["scaled"]),
        node("Softmax", ["scaled"]),
    ],
    "a distance": [
        node("Sub", ["x", "weight 4d"], ["d"]),
        node("Pow", ["d", "two"], ["dd"]),
        node("ReduceMean", ["dd"], ["m"], axes=[1]),
        node("Sqrt", ["m"]),
    ],
    "another value divided": [
        *norm([-1])[:6],
        node("Sqrt", ["ve"], ["r"]),
        node("Conv", ["x", "w"], ["other"]),
        node("Div", ["other", "r"]),
    ],
}


@pytest.mark.parametrize("what", NO_NORMS)
def test_reductions_that_are_no_norm_are_silent(what: str, tmp_path: Path) -> None:
    constants = {
        **CONSTANTS,
        "w": np.arange(16, dtype=np.float32).reshape(4, 4, 1, 1),
        "last": np.array([1]),
        "eight": np.float32(8),
    }
    assert layers_of(model(NO_NORMS[what], constants), tmp_path) == ()


def test_two_norms_in_a_row_have_names_of_their_own(tmp_path: Path) -> None:
    first = norm([-1], affine="flat")
    renamed = [onnx.NodeProto.FromString(each.SerializeToString()) for each in norm([-1], data="y", affine="flat")]
    for each in renamed:
        each.input[:] = [name if name in CONSTANTS or name == "y" else f"{name}'" for name in each.input]
        each.output[:] = [f"{name}'" for name in each.output]
    one, two = layers_of(model([*first, *renamed], CONSTANTS, inputs={"x": SEQUENCE}, outputs=("y'",)), tmp_path)
    assert (one.name, two.name) == ("n", "n#2")


def test_statistics_of_a_frozen_norm_in_arithmetic_are_a_gap(tmp_path: Path) -> None:
    """As torchvision's frozen batch norm is exported: scale = 1 / sqrt(var + eps), y = x · scale − mean · scale."""
    statistics = {
        "bn1.running_mean": np.zeros((1, 4, 1, 1), np.float32),
        "bn1.running_var": np.full((1, 4, 1, 1), np.nan, np.float32),
        "eps": np.float32(1e-5),
    }
    nodes = [
        node("Add", ("bn1.running_var", "eps"), ("spread",)),
        node("Sqrt", ("spread",), ("root",)),
        node("Sub", ("x", "bn1.running_mean"), ("centred",)),
        node("Div", ("centred", "root")),
    ]
    (gap,) = describe(model(nodes, statistics), tmp_path).gaps
    assert gap.hides_norms
    assert gap.where == "bn1.running_mean and 1 more"
    unused = describe(model([node("Relu", ("x",))], statistics), tmp_path)
    assert unused.gaps == (), "what nothing reads takes part in nothing"
