"""Where a sample's rows stand, through chains of views and transpositions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx_builders import node

from bnaudit.onnx_session.layouts import Layout, by_size, layouts

SIZE = 3
Step = tuple[str, Any]


def merge(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


@st.composite
def chains(draw: st.DrawFn) -> tuple[int, list[Step]]:
    """The batch axis of an input of shape (3, 4, 5) or (4, 3, 5), and what is done to it: views merge two axes."""
    axis = draw(st.integers(0, 1))
    steps: list[Step] = []
    rank = 3
    for _ in range(draw(st.integers(1, 4))):
        if rank > 1 and draw(st.booleans()):
            steps.append(("merge", draw(st.integers(0, rank - 2))))
            rank -= 1
        elif draw(st.booleans()):
            steps.append(("move", draw(st.permutations(range(rank)))))
        else:
            steps.append(("keep", None))
    return axis, steps


def values(axis: int, steps: list[Step], size: int) -> list[np.ndarray]:
    """What the chain computes from an input whose every entry is the number of its sample."""
    shape = (size, 4, 5) if axis == 0 else (4, size, 5)
    x = np.broadcast_to(np.arange(size).reshape((-1, 1, 1) if axis == 0 else (-1, 1)), shape).copy()
    found = [x]
    for kind, detail in steps:
        if kind == "merge":
            x = x.reshape(merge(x.shape, detail))
        elif kind == "move":
            x = x.transpose(detail)
        found.append(x)
    return found


def nodes(steps: list[Step]) -> list[onnx.NodeProto]:
    operators = {"merge": "Reshape", "move": "Transpose", "keep": "Relu"}
    return [node(operators[kind], [f"v{index}"], [f"v{index + 1}"]) for index, (kind, _) in enumerate(steps)]


@given(chains())
def test_a_row_is_all_of_one_sample(chain: tuple[int, list[Step]]) -> None:
    axis, steps = chain
    arrays, more = values(axis, steps, SIZE), values(axis, steps, SIZE + 1)
    shapes, larger = ({f"v{index}": each.shape for index, each in enumerate(these)} for these in (arrays, more))
    found = layouts(nodes(steps), {"v0": Layout(axis)}, shapes, larger, SIZE)
    for index, array in enumerate(arrays):
        layout = found[f"v{index}"]
        if layout is None:  # samples stand neither together nor evenly apart: the batch in the middle of merged axes
            flat = np.flatnonzero(
                np.moveaxis(array, int(np.argmax(array.shape)), 0).reshape(max(array.shape), -1)[:, 0] == 0
            )
            assert set(np.diff(flat)) != {1} and set(np.diff(flat)) != {SIZE}
            continue
        for sample in range(SIZE):
            row = layout.row(array, sample, SIZE)
            assert row.size == prod(array.shape) // SIZE
            assert (row == sample).all()


def test_a_flattened_batch_is_found_again_behind_it() -> None:
    """(T, N, C) → (T·N, C) → (T, N, C)."""
    steps = [node("Reshape", ["x", "s"], ["f"]), node("Relu", ["f"], ["r"]), node("Reshape", ["r", "b"], ["y"])]
    shapes = {"x": (4, 3, 5), "f": (12, 5), "r": (12, 5), "y": (4, 3, 5)}
    larger = {"x": (4, 4, 5), "f": (16, 5), "r": (16, 5), "y": (4, 4, 5)}
    found = layouts(steps, {"x": Layout(1)}, shapes, larger, SIZE)
    assert found["f"] == found["r"] == Layout(0, 4, False)
    assert found["y"] == Layout(1)


def test_a_value_that_does_not_grow_has_no_rows() -> None:
    found = layouts([node("ReduceMean", ["x"], ["m"])], {"x": Layout()}, {"m": (1, 5)}, {"m": (1, 5)}, SIZE)
    assert found["m"] is None


def test_by_size_alone_the_given_axis_comes_first() -> None:
    assert by_size((3, 3), 1, 3) == Layout(1)
    assert by_size((3, 5), 1, 3) == Layout(0)
    assert by_size((5, 4), 1, 3) is None
    assert by_size((), 0, 3) is None
