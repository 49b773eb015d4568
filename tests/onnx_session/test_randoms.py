"""Random operators: seen, and repeated from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_builders import PARAMETERS, model, node
from onnx_sessions import batch, normal, opened, values

from bnaudit.session import Held, Mode, Watch

X = normal(3, 4, 8, 8)


def dropping(training: bool, ratio: float = 0.5, opset: int = 17):  # type: ignore[no-untyped-def]
    return model(
        [node("Dropout", ["x", "ratio", "training"], name="drop")],
        {"ratio": np.float32(ratio), "training": np.bool_(training)},
        opset=opset,
    )


@pytest.mark.parametrize(("training", "ratio", "drops"), [(True, 0.5, True), (False, 0.5, False), (True, 0.0, False)])
def test_dropout_is_reported_when_it_drops(tmp_path: Path, training: bool, ratio: float, drops: bool) -> None:
    with opened(dropping(training, ratio), tmp_path) as session:
        trace = session.run(batch(X))
    assert [(call.is_dropout, call.probability, call.place.module) for call in trace.random_calls] == (
        [(True, ratio, "drop")] if drops else []
    )
    assert bool((values(trace) != X).any()) == drops


@pytest.mark.parametrize("training", [True, False])
def test_a_flag_that_is_an_input_decides_in_every_run(tmp_path: Path, training: bool) -> None:
    proto = dropping(True)
    del proto.graph.initializer[1]
    proto.graph.input.append(helper.make_tensor_value_info("training", TensorProto.BOOL, []))
    with opened(proto, tmp_path) as session:
        assert len(session.run(batch(X, np.bool_(training))).random_calls) == int(training)


def test_seeded_rows_of_a_dropout_do_not_depend_on_the_companions(tmp_path: Path) -> None:
    other = normal(3, 4, 8, 8, seed=1)
    other[0] = X[0]
    with opened(dropping(True), tmp_path) as session:
        calls = [session.run(batch(x), watch=Watch.ROWS, seed=3).operators[0] for x in (X, other, X)]
    assert len({call.rows_in for call in calls}) == len({call.rows_out for call in calls}) == 1


def test_a_seed_repeats_the_draws_of_the_reference_evaluator(tmp_path: Path) -> None:
    """onnxruntime has no ReLU of bfloat16."""
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        node("Relu", ["h"], ["r"]),
        node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("RandomNormalLike", ["f"], ["n"]),
        node("Dropout", ["n", "ratio", "training"]),
    ]
    proto = model(nodes, {"ratio": np.float32(0.5), "training": np.bool_(True)})
    with opened(proto, tmp_path) as session:
        assert "reference evaluator" in session.runner
        first, again, other = (values(session.run(batch(X), seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("operator", ["Dropout", "RandomNormalLike"])
def test_a_seed_repeats_the_draws_in_every_kind_of_run(tmp_path: Path, operator: str) -> None:
    drawing = (
        node("RandomNormalLike", ["x"], ["d"])
        if operator == "RandomNormalLike"
        else node("Dropout", ["x", "ratio", "training"], ["d"])
    )
    tensors = {**PARAMETERS, "ratio": np.float32(0.5), "training": np.bool_(True)}
    proto = model([node("BatchNormalization", ["x", *PARAMETERS], ["n"]), drawing, node("Add", ["d", "n"])], tensors)
    with opened(proto, tmp_path) as session:
        free = [values(session.run(batch(X))) for _ in range(2)]
        assert (free[0] != free[1]).any()
        first = values(session.run(batch(X), seed=7))
        for watch in (Watch.CALLS, Watch.MOMENTS, Watch.ROWS):
            np.testing.assert_array_equal(values(session.run(batch(X), watch=watch, seed=7)), first)
        assert (values(session.run(batch(X), seed=8)) != first).any()
        call = session.run(batch(X), seed=7).norm_calls[0]
        assert call.stored_mean is not None and call.stored_var is not None
        held = Held(index=0, mean=call.stored_mean, var=call.stored_var)
        same = values(session.run(batch(X), seed=7, hold=(held,)))
        np.testing.assert_allclose(same, first, atol=1e-5, err_msg="a copy draws what the graph draws")
        assert (values(session.run(batch(X), Mode.TRAINING_NORMS, seed=7)) != first).any()
