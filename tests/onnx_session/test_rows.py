"""Rows of anchors, followed through a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_builders import FLOAT, PARAMETERS, model, node
from onnx_sessions import batch, normal, opened, values

from bnaudit.onnx_session import rows
from bnaudit.session import Batch, Held, OperatorCall, Pinned, Watch

ANCHORS = (0, 2, 4)
TRAINING = {"training_mode": 1}


def swapped(x: np.ndarray, axis: int = 0) -> np.ndarray:
    """The same anchors among other companions."""
    other = normal(*x.shape, seed=9)
    index = [slice(None)] * x.ndim
    index[axis] = list(ANCHORS)
    other[tuple(index)] = x[tuple(index)]
    return other


def mixing(proto: onnx.ModelProto, folder: Path, x: np.ndarray, axis: int = 0) -> list[str]:
    """Operators that anchors' rows enter equal and leave unequal."""
    with opened(proto, folder) as session:
        first, second = (
            session.run(batch(each, anchors=ANCHORS, axis=axis), watch=Watch.ROWS).operators
            for each in (x, swapped(x, axis))
        )
    return mixers(first, second)


def mixers(first: tuple[OperatorCall, ...], second: tuple[OperatorCall, ...]) -> list[str]:
    pairs = list(zip(first, second, strict=True))
    assert all(one.place == other.place and one.index == other.index for one, other in pairs)
    return [one.place.module for one, other in pairs if one.rows_in == other.rows_in and one.rows_out != other.rows_out]


def test_a_norm_in_training_form_is_where_samples_meet(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["r"], name="before"),
        node("BatchNormalization", ["r", *PARAMETERS], ["n", "rm", "rv"], name="norm", **TRAINING),
        node("Relu", ["n"], name="behind"),
    ]
    assert mixing(model(nodes, PARAMETERS), tmp_path, normal(5, 4, 8, 8)) == ["norm"]


def test_a_healthy_graph_mixes_nowhere(tmp_path: Path) -> None:
    nodes = [node("BatchNormalization", ["x", *PARAMETERS], ["n"]), node("Softmax", ["n"])]
    assert mixing(model(nodes, PARAMETERS), tmp_path, normal(5, 4, 8, 8)) == []


@pytest.mark.parametrize("size", [4, 8])
def test_the_batch_axis_is_told_from_others_of_the_same_size(tmp_path: Path, size: int) -> None:
    """A transposed value: the batch stands on the second axis, the first has as many entries."""
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2, 3], name="move"),
        node("Softmax", ["t"], ["s"], axis=0, name="over channels"),
        node("Softmax", ["s"], axis=1, name="over samples"),
    ]
    x = normal(5, 5, 8, 8)
    assert mixing(model(nodes, inputs={"x": ("N", 5, 8, 8)}), tmp_path, x) == ["over samples"]


def test_inputs_whose_batch_axis_is_the_second(tmp_path: Path) -> None:
    nodes = [node("Softmax", ["x"], ["s"], axis=0, name="time"), node("CumSum", ["s", "one"], name="batch")]
    proto = model(nodes, {"one": np.array(1)}, inputs={"x": ("T", "N", 4)})
    assert mixing(proto, tmp_path, normal(3, 5, 4), axis=1) == ["batch"]


def test_rows_inside_flattened_axes_are_followed(tmp_path: Path) -> None:
    """(N, T, C) → (N·T, C), samples outermost, and (T, N·H, C), samples outermost in their axis."""
    nodes = [
        node("Reshape", ["x", "flat"], ["f"], name="flatten"),
        node("MatMul", ["f", "w"], ["h"], name="linear"),
        node("BatchNormalization", ["h", *PARAMETERS], ["n", "rm", "rv"], name="norm", **TRAINING),
        node("Reshape", ["n", "back"], name="restore"),
    ]
    tensors = {**PARAMETERS, "flat": np.array([-1, 4]), "back": np.array([-1, 3, 4]), "w": normal(4, 4, seed=2)}
    proto = model(nodes, tensors, inputs={"x": ("N", 3, 4)})
    assert mixing(proto, tmp_path, normal(5, 3, 4)) == ["norm"]


def test_rows_that_stand_innermost_are_followed(tmp_path: Path) -> None:
    """(T, N, C) → (T·N, C): the rows of a sample stand N apart."""
    nodes = [
        node("Reshape", ["x", "flat"], ["f"], name="flatten"),
        node("Relu", ["f"], ["r"], name="relu"),
        node("BatchNormalization", ["r", *PARAMETERS], ["y", "rm", "rv"], name="norm", **TRAINING),
    ]
    proto = model(nodes, {**PARAMETERS, "flat": np.array([-1, 4])}, inputs={"x": (3, "N", 4)})
    assert mixing(proto, tmp_path, normal(3, 5, 4), axis=1) == ["norm"]


def test_a_batch_that_is_read_as_time(tmp_path: Path) -> None:
    """A view instead of a transposition puts other samples' values into the rows."""
    nodes = [node("Reshape", ["x", "wrong"], name="view")]
    proto = model(nodes, {"wrong": np.array([-1, 3, 4])}, inputs={"x": (3, "N", 4)})
    assert mixing(proto, tmp_path, normal(3, 5, 4), axis=1) == ["view"]


def test_to_look_behind_a_mixing_norm_its_statistics_are_held(tmp_path: Path) -> None:
    second = {f"{name}2": array for name, array in PARAMETERS.items()}
    nodes = [
        node("BatchNormalization", ["x", *PARAMETERS], ["n", "a", "b"], name="first", **TRAINING),
        node("Relu", ["n"], ["r"], name="relu"),
        node("BatchNormalization", ["r", *second], ["y", "c", "d"], name="second", **TRAINING),
    ]
    x = normal(5, 4, 8, 8)
    with opened(model(nodes, {**PARAMETERS, **second}), tmp_path) as session:
        batches = [batch(each, anchors=ANCHORS) for each in (x, swapped(x))]
        first, other = (session.run(each, watch=Watch.ROWS) for each in batches)
        assert mixers(first.operators, other.operators) == ["first"]
        hold = tuple(Held(index=call.index, mean=call.batch_mean, var=call.batch_var) for call in first.norm_calls)
        held, held_other = (session.run(each, watch=Watch.ROWS, hold=hold) for each in batches)
    assert mixers(held.operators, held_other.operators) == ["first", "second"]
    assert [call.norm for call in held.operators] == [0, None, 1]
    np.testing.assert_array_equal(
        np.take(held.outputs[0].values, ANCHORS, 0), np.take(held_other.outputs[0].values, ANCHORS, 0)
    )


def test_large_values_are_handed_out_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("Relu", ["x" if step == 0 else f"v{step}"], [f"v{step + 1}"]) for step in range(6)]
    proto = model([*nodes, node("Identity", ["v6"])])
    x = batch(normal(5, 4, 8, 8), anchors=ANCHORS)
    with opened(proto, tmp_path) as session:
        whole = session.run(x, watch=Watch.ROWS).operators
    monkeypatch.setattr(rows, "MOST_BYTES", 4 * 5 * 256 * 2)
    with opened(proto, tmp_path) as session:
        assert session.run(x, watch=Watch.ROWS).operators == whole


def test_sequences_and_branches_do_not_stop_the_watch(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [node("Neg", ["x"], ["inner"])], "b", [], [helper.make_tensor_value_info("inner", FLOAT, None)]
    )
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["seq"]),
        node("SequenceAt", ["seq", "one"], ["item"]),
        node("If", ["yes"], ["chosen"], then_branch=branch, else_branch=branch),
        node("Add", ["item", "chosen"], name="sum"),
    ]
    proto = model(nodes, {"one": np.array(1), "yes": np.array(True)})
    x = Batch(args=(normal(5, 4, 8, 8),), size=5, anchors=ANCHORS)
    with opened(proto, tmp_path) as session:
        calls = session.run(x, watch=Watch.ROWS).operators
    assert [call.place.operator for call in calls] == ["SequenceConstruct", "SequenceAt", "If", "Add"]
    assert calls[-1].rows_in is not None and calls[0].rows_out is None


def test_fingerprints_are_of_bits() -> None:
    x = np.zeros((2, 3), np.float32)
    other = x.copy()
    other[1, 2] = -0.0
    first, second = rows.fingerprint(x, rows.PLAIN, (0, 1), 2), rows.fingerprint(other, rows.PLAIN, (0, 1), 2)
    assert first.rows is not None and second.rows is not None
    assert first.rows[0] == second.rows[0] and first.rows[1] != second.rows[1]


def test_a_fixed_batch_is_followed_by_its_size(tmp_path: Path) -> None:
    nodes = [
        node("BatchNormalization", ["x", *PARAMETERS], ["n", "a", "b"], name="norm", **TRAINING),
        node("Relu", ["n"]),
    ]
    proto = model(nodes, PARAMETERS, inputs={"x": (5, 4, 8, 8)})
    assert mixing(proto, tmp_path, normal(5, 4, 8, 8)) == ["norm"]


def test_text_has_rows_too(tmp_path: Path) -> None:
    proto = model([node("StringConcat", ["x", "x"])], opset=20, inputs={"x": ("N",)})
    for declared in (*proto.graph.input, *proto.graph.output):
        declared.type.tensor_type.elem_type = onnx.TensorProto.STRING
    words = np.array(["a", "b", "c", "d", "e"])
    with opened(proto, tmp_path) as session:
        (call,) = session.run(batch(words, anchors=ANCHORS), watch=Watch.ROWS).operators
    assert call.rows_out is not None and len(set(call.rows_out)) == 3


def test_behind_pinned_rows_a_second_operator_that_mixes_shows(tmp_path: Path) -> None:
    """y = x − mean(x) over the batch, z = 2·y, then z − mean(z): the product does not mix, both differences do."""
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=[0], name="mean"),
        node("Sub", ["x", "m"], ["d"], name="first"),
        node("Add", ["d", "d"], ["z"], name="twice"),
        node("ReduceMean", ["z"], ["n"], axes=[0], name="mean again"),
        node("Sub", ["z", "n"], name="second"),
    ]
    x = normal(5, 3)
    with opened(model(nodes, inputs={"x": ("N", 3)}), tmp_path) as session:
        one, other = (batch(each, anchors=ANCHORS) for each in (x, swapped(x)))
        plain = session.run(one, watch=Watch.ROWS), session.run(other, watch=Watch.ROWS)
        assert mixers(plain[0].operators, plain[1].operators) == ["first"]
        pin = tuple(Pinned(index=call.index) for call in plain[0].operators if call.place.module == "first")
        taken = session.run(one, watch=Watch.ROWS, pin=pin)
        written = session.run(other, watch=Watch.ROWS, pin=taken.pinned)
    assert mixers(taken.operators, written.operators) == ["first", "second"]
    np.testing.assert_array_equal(values(taken), values(plain[0]))
    seen = swapped(x) - swapped(x).mean(0)
    seen[list(ANCHORS)] = (x - x.mean(0))[list(ANCHORS)]
    np.testing.assert_allclose(values(written), 2 * seen - (2 * seen).mean(0), rtol=1e-5, atol=1e-6)
