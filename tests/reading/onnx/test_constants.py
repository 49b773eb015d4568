"""Constants that are worked out, held to onnx's reference evaluator bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_builders import IMAGE, model, node

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.constants import Constant, Constants, UnevaluableError
from bnaudit.reading.onnx.dependence import Dependence
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.model import read_model
from bnaudit.reading.onnx.scope import Scope

A = np.array([[0.5, -1.25, 3.0], [2.0, 8.0, 0.1]], np.float32)
B = np.array([1.5, -2.0, 0.3], np.float32)
POSITIVE = np.array([0.5, 2.0, 1e-6], np.float32)
WHOLE = np.array([7, -7, 9], np.int64)


def evaluated(proto: onnx.ModelProto, folder: Path, name: str = "y") -> Constant:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with ByteSource.open(path) as source, ExternalFiles(source) as files:
        read = read_model(source, files)
        value = Scope(read, read.graph).value(name)
        assert value is not None
        return Constants(Dependence()).evaluate(value)


def check(proto: onnx.ModelProto, folder: Path) -> None:
    """Every output equals the reference evaluator's: type, shape and bits."""
    names = [output.name for output in proto.graph.output]
    for name, expected in zip(names, ReferenceEvaluator(proto).run(None, {}), strict=True):
        found = evaluated(proto, folder, name).array
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)


def case(operator: str, *operands: Any, opset: int = 17, outputs: int = 1, **attributes: Any) -> Any:
    label = f"{operator} {opset} {' '.join(map(str, attributes.values()))}".strip()
    return pytest.param(operator, operands, opset, outputs, attributes, id=label)


CASES = [
    *(case(operator, A, B) for operator in ("Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater", "LessOrEqual")),
    *(case(operator, POSITIVE) for operator in ("Sqrt", "Log", "Exp", "Reciprocal", "Tanh", "Relu")),
    *(case(operator, A) for operator in ("Neg", "Abs", "Floor", "Ceil", "Round", "Sign", "Identity", "Flatten")),
    case("Size", A),
    case("Sigmoid", A.astype(np.float64)),
    case("Pow", POSITIVE, np.float32(2)),
    case("Pow", POSITIVE, np.int64(-1)),
    case("Div", WHOLE, np.int64(2)),
    case("Max", A, B, np.float32(0)),
    case("Min", A, B),
    case("Sum", A, B),
    case("And", A > 0, B > 0),
    case("Or", A > 0, B > 0),
    case("Not", A > 0),
    case("Where", A > 1, A, B),
    case("Clip", A, np.float32(-1), np.float32(2)),
    case("Clip", A, opset=6, min=-1.0, max=2.0),
    case("ReduceMean", A, axes=[1]),
    case("ReduceMean", A, np.array([0]), opset=18, keepdims=0),
    case("ReduceSum", A, np.array([0])),
    case("ReduceProd", WHOLE, keepdims=0),
    case("ReduceMax", A),
    case("ReduceMin", A, axes=[-1]),
    case("ReduceSumSquare", A, axes=[0]),
    case("Reshape", A, np.array([0, -1, 1])),
    case("Reshape", np.zeros((0, 3), np.float32), np.array([3, 0]), allowzero=1),
    case("Squeeze", A[None], np.array([0])),
    case("Squeeze", A[None], opset=11, axes=[0]),
    case("Unsqueeze", A, np.array([0, -1])),
    case("Unsqueeze", A, opset=11, axes=[1]),
    case("Transpose", A),
    case("Transpose", A[None], perm=[2, 0, 1]),
    case("Expand", B, np.array([2, 3])),
    case("Expand", A, np.array([1, 3])),
    case("Tile", A, np.array([2, 1])),
    case("Concat", A, A, axis=0),
    case("Concat", A, A, axis=-1),
    case("Split", A, np.array([1, 2]), outputs=2, axis=1),
    case("Split", A, opset=11, outputs=2, axis=0),
    case("Split", np.arange(7.0), opset=18, outputs=3, num_outputs=3),
    case("Slice", A, np.array([0]), np.array([2]), np.array([1])),
    case("Slice", A, np.array([2]), np.array([-(2**62)]), np.array([1]), np.array([-1])),
    case("Slice", A, opset=9, starts=[0, 1], ends=[1, 99]),
    case("Gather", A, np.array([1, -1]), axis=1),
    case("Gather", A, np.int64(0)),
    case("Range", np.int64(1), np.int64(9), np.int64(3)),
    case("Range", np.float32(1), np.float32(0), np.float32(-0.25)),
    case("Shape", A),
    case("Shape", A, start=-1),
    case("Shape", A, start=0, end=1),
    case("ConstantOfShape", np.array([2, 3])),
    case("ConstantOfShape", np.array([4]), value=helper.make_tensor("v", onnx.TensorProto.INT64, [1], [7])),
    *(case("Cast", A, to=code) for code in (1, 6, 7, 9, 10, 11)),
    case("CastLike", A, np.float16(0)),
    case("DequantizeLinear", np.array([[1, -3], [9, 127]], np.int8), np.float32(0.05), opset=19),
    case("DequantizeLinear", np.uint8([[1, 3], [9, 200]]), np.float32([0.1, 0.3]), np.uint8([1, 2]), opset=19, axis=1),
    case("QuantizeLinear", A, np.float32(0.1), np.uint8(128)),
    case("QuantizeLinear", A, np.float32(0.01), np.int8(-3)),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "operands", "opset", "outputs", "attributes"), CASES)
def test_operators_give_what_the_reference_evaluator_gives(
    operator: str, operands: tuple[Any, ...], opset: int, outputs: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    names = [f"i{index}" for index in range(len(operands))]
    results = [f"y{index}" for index in range(outputs)]
    proto = model(
        [node(operator, names, results, **attributes)],
        dict(zip(names, operands, strict=True)),
        inputs={},
        outputs=results,
        opset=opset,
    )
    check(proto, tmp_path)


@pytest.mark.parametrize(
    "attributes",
    [
        {"value": numpy_helper.from_array(A)},
        {"value_float": 0.1},
        {"value_floats": [0.1, 0.2]},
        {"value_int": -3},
        {"value_ints": [1, -2]},
    ],
    ids=lambda attributes: next(iter(attributes)),
)
def test_constant_nodes_of_every_kind(attributes: dict[str, Any], tmp_path: Path) -> None:
    check(model([node("Constant", [], ["y"], **attributes)], inputs={}), tmp_path)


@given(
    array=arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=5), elements=st.floats(-8, 8, width=32)),
    data=st.data(),
)
def test_slices_cut_as_the_reference_evaluator_cuts(array: Any, data: st.DataObject, tmp_path: Path) -> None:
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    start, end = (data.draw(st.integers(-9, 9)) for _ in range(2))
    step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
    cut = {name: np.array([number]) for name, number in (("s", start), ("e", end), ("a", axis), ("t", step))}
    check(model([node("Slice", ["x0", *cut])], {"x0": array, **cut}, inputs={}), tmp_path)


@given(array=arrays.arrays(np.float32, 6, elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_float32_chains_round_as_float32(array: Any, tmp_path: Path) -> None:
    nodes = [
        node("Mul", ["a", "k"], ["b"]),
        node("Add", ["b", "a"], ["c"]),
        node("Abs", ["c"], ["d"]),
        node("Sqrt", ["d"]),
    ]
    check(model(nodes, {"a": array, "k": np.float32(0.1)}, inputs={}), tmp_path)


def test_bfloat16_is_rounded_after_every_step(tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0x3F81, 0x4049], np.uint16)
    tensor = helper.make_tensor("a", onnx.TensorProto.BFLOAT16, [3], bits.tobytes(), raw=True)
    nodes = [node("Mul", ["a", "a"], ["b"]), node("Add", ["b", "a"])]
    found = evaluated(model(nodes, {"a": tensor}, inputs={}), tmp_path)
    product = to_bfloat16(from_bfloat16(bits) ** 2)
    expected = to_bfloat16(from_bfloat16(product) + from_bfloat16(bits))
    assert found.dtype == "bfloat16"
    assert found.array.tolist() == from_bfloat16(expected).tolist()


def from_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The nearer of the two neighbours, found by trying both."""
    low = (values.view(np.uint32) >> 16).astype(np.uint16)
    high = low + np.uint16(1)
    below, above = (np.abs(from_bfloat16(bits).astype(np.float64) - values) for bits in (low, high))
    return np.where((below < above) | ((below == above) & (low % 2 == 0)), low, high)


def test_early_opsets_broadcast_along_an_axis(tmp_path: Path) -> None:
    left, right = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.float32([10, 20, 30])
    nodes = [node("Add", ["a", "b"], broadcast=1, axis=1)]
    found = evaluated(model(nodes, {"a": left, "b": right}, inputs={}, opset=6), tmp_path)
    np.testing.assert_array_equal(found.array, left + right[:, None])


def test_blocks_of_a_quantized_row_have_their_own_scale(tmp_path: Path) -> None:
    """DequantizeLinear of opset 21: scale k of a row belongs to values k·block to (k+1)·block − 1."""
    scales = np.float32([[0.5, 2.0]])
    nodes = [node("DequantizeLinear", ["q", "s"], axis=1, block_size=2)]
    proto = model(nodes, {"q": np.int8([[1, 2, 3, 4]]), "s": scales}, inputs={}, opset=21)
    assert evaluated(proto, tmp_path).array.tolist() == [[0.5, 1.0, 6.0, 8.0]]


def test_sizes_that_the_file_fixes_are_known_and_free_ones_are_not(tmp_path: Path) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "c"], ["y"]), node("Gather", ["s", "n"], ["z"])]
    proto = model(nodes, {"c": np.array([1]), "n": np.int64(0)}, outputs=("y", "z"))
    assert evaluated(proto, tmp_path).array.tolist() == [IMAGE[1]]
    with pytest.raises(UnevaluableError, match="leaves open"):
        evaluated(proto, tmp_path, "z")


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("ConstantOfShape", ["huge"])], "does not fit"),
        ([node("Tile", ["a", "huge"])], "does not fit"),
        ([node("Expand", ["a", "huge"])], "does not fit"),
        ([node("Range", ["zero", "many", "one"])], "does not fit"),
        ([node("Reshape", ["a", "huge"])], "does not fit"),
        ([node("Add", ["a", "wide"])], "does not fit"),
        ([node("Div", ["one", "zero"])], "does not fit"),
        ([node("Add", ["long", "tall"])], "does not fit"),
        ([node("Gather", ["tall", "tall index"], axis=1)], "does not fit"),
        ([node("Identity", ["z"]), node("Identity", ["y"], ["z"])], "computed from itself"),
        ([node("Erf", ["a"])], "not worked out"),
        ([node("Neg", ["x"])], "depends on an input"),
        ([node("Identity", ["enormous"])], "too many"),
        ([node("Constant", [], value_string="text")], "does not fit"),
    ],
    ids=lambda value: value[0].op_type if isinstance(value, list) else None,
)
def test_what_cannot_be_worked_out_says_why(nodes: list[onnx.NodeProto], why: str, tmp_path: Path) -> None:
    constants = {
        "a": np.float32([1, 2, 3]),
        "wide": np.float32([1, 2]),
        "huge": np.array([2**40]),
        "zero": np.int64(0),
        "one": np.int64(1),
        "many": np.int64(2**40),
        "long": np.zeros((1, 2000), np.float32),
        "tall": np.zeros((2000, 1), np.float32),
        "tall index": np.zeros(2000, np.int64),
        "enormous": np.zeros(2**20 + 1, np.int8),
    }
    with pytest.raises(UnevaluableError, match=why):
        evaluated(model(nodes, constants), tmp_path)


def test_deep_chains_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    nodes = [node("Neg", [f"v{index}"], [f"v{index + 1}"]) for index in range(20_000)]
    found = evaluated(model(nodes, {"v0": np.float32([1.5])}, inputs={}, outputs=("v20000",)), tmp_path, "v20000")
    assert found.array.tolist() == [1.5]
