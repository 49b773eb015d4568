"""Graphs that onnxruntime does not load, and what it lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_builders import PARAMETERS, model, node
from onnx_sessions import batch, normal, opened, values

from bnaudit.errors import BnauditError, UsageError
from bnaudit.session import Mode, NotPossibleError, Watch


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            model([node("Sparkle", ["x"], domain="my.ops", name="odd")], domains={"my.ops": 1}),
            "does not know the operator my.ops.Sparkle.*--custom-ops lib.so",
        ),
        (model([node("Sparkle", ["x"], name="odd")]), "operator Sparkle.*Sparkle node odd.*--custom-ops"),
        (model([node("Relu", ["nowhere"])]), "onnxruntime refuses the graph"),
        (model([node("Relu", ["x"])], opset=999), "newer"),
    ],
)
def test_why_a_graph_is_not_loaded(tmp_path: Path, proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(NotPossibleError, match=message) as caught, opened(proto, tmp_path):
        pass
    assert "\n" not in str(caught.value) and "/onnxruntime_src/" not in str(caught.value)


def test_a_newer_file_format_is_said(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"])])
    proto.ir_version = 999
    with pytest.raises(NotPossibleError, match="newer"), opened(proto, tmp_path):
        pass


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"])])
    with pytest.raises(UsageError, match="--custom-ops missing"), opened(proto, tmp_path, custom_ops=("missing.so",)):
        pass


@pytest.mark.parametrize("device", ["cuda", "tpu"])
def test_a_device_that_is_not_there(tmp_path: Path, device: str) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("there is one")
    with pytest.raises(UsageError, match=r"CUDA|'tpu'"), opened(model([node("Relu", ["x"])]), tmp_path, device=device):
        pass


def test_what_onnxruntime_lacks_the_reference_evaluator_computes(tmp_path: Path) -> None:
    """onnxruntime has no BatchNormalization of opset 6."""
    x = normal(5, 4, 8, 8)
    proto = model([node("BatchNormalization", ["x", *PARAMETERS], is_test=1, name="norm")], PARAMETERS, opset=6)
    with opened(proto, tmp_path) as session:
        assert "reference evaluator" in session.runner
        assert session.remarks[0].startswith("onnxruntime has no implementation of BatchNormalization")
        assert not session.has_production_form
        plain = session.run(batch(x), watch=Watch.NOTHING)
    gamma, beta, mean, var = (array.astype(float).reshape(1, 4, 1, 1) for array in PARAMETERS.values())
    np.testing.assert_allclose(values(plain), (x - mean) / np.sqrt(var + 1e-5) * gamma + beta, rtol=1e-4, atol=1e-4)


def test_newer_operators_in_the_reference_evaluator_are_watched(tmp_path: Path) -> None:
    proto = model(
        [
            node("Cast", ["x"], ["half"], to=onnx.TensorProto.BFLOAT16),
            node("Relu", ["half"], ["positive"]),
            node("Cast", ["positive"], ["wide"], to=onnx.TensorProto.FLOAT),
            node("BatchNormalization", ["wide", *PARAMETERS], name="norm"),
        ],
        PARAMETERS,
    )
    x = normal(5, 4, 8, 8)
    with opened(proto, tmp_path) as session:
        assert "reference evaluator" in session.runner
        trace = session.run(batch(x), Mode.TRAINING_NORMS, Watch.ROWS)
    assert trace.compute_dtype == "bfloat16"
    assert [call.layer for call in trace.norm_calls] == ["bn"]
    assert [call.place.operator for call in trace.operators] == ["Cast", "Relu", "Cast", "BatchNormalization"]


def test_bfloat16_in_the_reference_evaluator(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"])])
    for declared in (*proto.graph.input, *proto.graph.output):
        declared.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    x = np.array([-1.0, 0.5, 3.0, 1.0], np.float32).reshape(1, 4, 1, 1).repeat(8, 2).repeat(8, 3)
    with opened(proto, tmp_path) as session:
        assert "reference evaluator" in session.runner
        (output,) = session.run(batch(x), watch=Watch.ROWS).outputs
    assert (output.dtype, output.values.dtype) == ("bfloat16", np.float32)
    np.testing.assert_array_equal(output.values, np.maximum(x, 0))


def test_every_refusal_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model([node("Relu", ["x"])]).SerializeToString()[:-4])
    with pytest.raises(BnauditError), opened(path, tmp_path):
        pass


def test_a_graph_too_old_to_be_copied_still_returns_what_it_returns(tmp_path: Path) -> None:
    """The opset is below what onnxruntime's operators can be added to; these of opset 6 run."""
    x = normal(3, 4, 8, 8)
    proto = model([node("Abs", ["x"], ["r"]), node("LpNormalization", ["r"], axis=1)], opset=6)
    with opened(proto, tmp_path) as session:
        trace = session.run(batch(x))
        assert trace.norm_calls == () and "opset 6 cannot be watched" in session.remarks[-1]
        with pytest.raises(NotPossibleError, match="version_converter"):
            session.run(batch(x), watch=Watch.ROWS)
    positive = np.abs(x)
    np.testing.assert_allclose(values(trace), positive / np.linalg.norm(positive, axis=1, keepdims=True), rtol=1e-5)
