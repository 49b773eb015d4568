"""From batches to what a graph takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnaudit.description import GraphInput
from bnaudit.onnx_session.inputs import feeds, fixed_batch
from bnaudit.session import Batch, NotPossibleError, RunError

IMAGE = GraphInput(name="image", dtype="float32", shape=("N", 3))
TOKENS = GraphInput(name="tokens", dtype="int64", shape=(None, "T"))
PICTURE = np.arange(6.0).reshape(2, 3)
WORDS = np.array([[1, 2], [3, 4]], np.int32)


def given(*args: Any, **kwargs: Any) -> Batch:
    return Batch(args=args, kwargs=kwargs, size=2, anchors=(0,))


@pytest.mark.parametrize(
    "batch",
    [
        given(PICTURE, WORDS),
        given(WORDS, image=PICTURE),
        given(tokens=WORDS, image=PICTURE),
        given({"tokens": WORDS, "image": PICTURE}),
        given((PICTURE, WORDS)),
        given([PICTURE.tolist(), WORDS.tolist()]),
    ],
)
def test_inputs_are_found_by_name_and_by_order(batch: Batch) -> None:
    found = feeds(batch, [IMAGE, TOKENS])
    assert {name: array.dtype.name for name, array in found.items()} == {"image": "float32", "tokens": "int64"}
    np.testing.assert_array_equal(found["image"], PICTURE)
    np.testing.assert_array_equal(found["tokens"], WORDS)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (given(PICTURE), "input 'tokens' is missing"),
        (given(PICTURE, WORDS, WORDS), "3 inputs for a graph that takes 2"),
        (given(images=PICTURE, tokens=WORDS), "no input 'images'"),
        (given(PICTURE[0], WORDS), "1 axes instead of 2 \\(image\\): give N×3"),
        (given(PICTURE[:, :2], WORDS), "size 2 on axis 1 instead of 3"),
        (given(PICTURE, WORDS + 0.5), "integers was given fractions"),
        (given(np.array([["a"] * 3]), WORDS), "type <U1 \\(image\\): give float32"),
        (given([[1.0], [1.0, 2.0]], WORDS), "no array"),
    ],
)
def test_what_does_not_fit_is_one_sentence(batch: Batch, message: str) -> None:
    with pytest.raises(RunError, match=message):
        feeds(batch, [IMAGE, TOKENS])


def test_the_nearest_name_is_offered_among_many() -> None:
    many = [GraphInput(name=f"value_{letter}", dtype="float32", shape=None) for letter in "abcdefg"]
    with pytest.raises(RunError, match="did you mean 'value_c'"):
        feeds(given(**{"valve_c": PICTURE}), many)


@pytest.mark.parametrize("dtype", ["sequence", "float8_e4m3fn", "unknown"])
def test_types_that_cannot_be_given_are_said(dtype: str) -> None:
    with pytest.raises(NotPossibleError, match=dtype):
        feeds(given(PICTURE), [GraphInput(name="x", dtype=dtype, shape=None)])


def test_floats_come_in_the_graph_s_type() -> None:
    half = GraphInput(name="x", dtype="float16", shape=None)
    assert feeds(given(PICTURE), [half])["x"].dtype == np.float16
    assert feeds(given(np.array([True])), [half])["x"].dtype == np.float16


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        ([(1, 3)], 1),
        ([("N", 3)], None),
        ([(None, 3)], None),
        ([(8, 3), (2, 8, 4)], 8),
        ([(8, 3), ("N", 4)], None),
        ([(8, 3), ()], 8),
        ([()], None),
        ([None], None),
        ([], None),
    ],
)
def test_a_batch_is_fixed_where_all_inputs_fix_it(shapes: list[Any], size: int | None) -> None:
    inputs = [GraphInput(name=f"x{index}", dtype="float32", shape=shape) for index, shape in enumerate(shapes)]
    assert fixed_batch(inputs) == size
