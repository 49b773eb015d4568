"""What a graph returns, flattened."""

from __future__ import annotations

import numpy as np

from bnaudit.onnx_session.outputs import flattened

A, B = np.zeros((2, 3), np.float32), np.ones(2, np.int64)


def test_tensors_keep_their_names_and_types() -> None:
    one, two = flattened(["a", "b"], [A, B], {"a": "bfloat16"})
    assert (one.name, one.dtype, two.name, two.dtype) == ("a", "bfloat16", "b", "int64")
    assert not one.values.flags.writeable


def test_sequences_and_maps_are_flattened_in_order() -> None:
    found = flattened(["s"], [[A, [B]]], {})
    assert [output.name for output in found] == ["s[0]", "s[1][0]"]


def test_maps_for_each_sample_become_an_array_for_each_class() -> None:
    found = flattened(["p"], [[{"cat": 0.25, "dog": 0.75}, {"cat": 0.5, "dog": 0.5}]], {})
    assert [output.name for output in found] == ["p['cat']", "p['dog']"]
    np.testing.assert_array_equal(found[0].values, [0.25, 0.5])


def test_text_and_absent_optionals_are_left_out() -> None:
    assert flattened(["t", "o"], [np.array(["a"], object), None], {}) == ()
