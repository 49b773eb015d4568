"""What a graph returns, in which modes, against PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx_builders import BETA, GAMMA, MEAN, PARAMETERS, VAR, model, node
from onnx_sessions import batch, exported, normal, opened, values
from torch import nn

from bnaudit.description import Carrier, NormKind
from bnaudit.session import Held, Mode, NotPossibleError, RunError, Watch

NORM = ["x", *PARAMETERS]


class Small(nn.Module):
    """Two batch norms with statistics that are not the first ones."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(
            nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 5)
        )
        for norm in (self.body[0], self.body[3]):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.uniform_(0.5, 2)
            norm.bias.data.normal_()
        self.to(dtype).eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def with_norms_training(self, x: torch.Tensor) -> torch.Tensor:
        """The output with the batch's statistics; running statistics are put back."""
        state = {name: value.clone() for name, value in self.state_dict().items()}
        for norm in (self.body[0], self.body[3]):
            norm.train()
        with torch.no_grad():
            result = self(x)
        self.load_state_dict(state)
        self.eval()
        return result


def test_the_outputs_are_what_pytorch_computes(tmp_path: Path) -> None:
    net, x = Small(), normal(6, 3, 6, 6)
    path = exported(net, torch.from_numpy(x), tmp_path / "net.onnx")
    with opened(path, tmp_path) as session:
        trace = session.run(batch(x))
        assert session.runner.startswith("onnxruntime ")
    with torch.no_grad():
        np.testing.assert_allclose(values(trace), net(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-5)
    assert trace.outputs[0].dtype == "float32"
    assert trace.compute_dtype == "float32"
    assert trace.changes == ()


def test_the_dynamo_exporter_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    net, x = Small(), torch.from_numpy(normal(6, 3, 6, 6))
    path = tmp_path / "net.onnx"
    torch.onnx.export(
        net, (x,), str(path), dynamo=True, optimize=False, verbose=False, dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    with opened(path, tmp_path) as session:
        assert {call.layer for call in session.run(batch(x.numpy())).norm_calls} == {"body.0", "body.3"}
        trained = values(session.run(batch(x.numpy()), Mode.TRAINING_NORMS))
    np.testing.assert_allclose(trained, net.with_norms_training(x).numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [9, 13, 14, 17, 18])
def test_training_norms_are_what_pytorch_computes_in_training_mode(tmp_path: Path, opset: int) -> None:
    net, x = Small(), torch.from_numpy(normal(6, 3, 6, 6))
    path = exported(net, x, tmp_path / "net.onnx", opset_version=opset)
    with opened(path, tmp_path) as session:
        assert session.modes == {Mode.INFERENCE, Mode.TRAINING_NORMS}
        trained = session.run(batch(x.numpy()), Mode.TRAINING_NORMS)
        again = session.run(batch(x.numpy()), Mode.TRAINING_NORMS)
    expected = net.with_norms_training(x).numpy()
    np.testing.assert_allclose(values(trained), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(values(trained), values(again))
    assert all(call.uses_batch and call.mixes_samples for call in trained.norm_calls)


def test_batch_statistics_of_both_modes_are_exact(tmp_path: Path) -> None:
    net, x = Small(), torch.from_numpy(normal(6, 3, 6, 6) * 0.1 + 1000)
    path = exported(net, x, tmp_path / "net.onnx")
    with opened(path, tmp_path) as session:
        first, _ = session.run(batch(x.numpy()), Mode.TRAINING_NORMS).norm_calls
        plain, _ = session.run(batch(x.numpy()), watch=Watch.MOMENTS).norm_calls
    wide = x.double()
    assert first.batch_mean is not None and first.batch_var is not None
    np.testing.assert_allclose(first.batch_mean, wide.mean((0, 2, 3)).numpy(), rtol=1e-12)
    np.testing.assert_allclose(first.batch_var, wide.var((0, 2, 3), correction=0).numpy(), rtol=1e-9)
    assert plain.sample_mean is not None and plain.sample_var is not None
    np.testing.assert_allclose(plain.sample_mean, wide.mean((2, 3)).numpy(), rtol=1e-12)
    np.testing.assert_allclose(plain.sample_var, wide.var((2, 3), correction=0).numpy(), rtol=1e-9)
    assert plain.batch_mean is None, "the stored statistics were used"
    assert (plain.values_per_statistic, plain.values_per_sample, plain.channels) == (6 * 36, 36, 3)
    stored = net.body[0].running_mean.double().numpy()
    np.testing.assert_array_equal(plain.stored_mean, stored)


def test_a_graph_that_was_exported_in_training_mode_uses_its_batch(tmp_path: Path) -> None:
    net, x = Small(), torch.from_numpy(normal(6, 3, 6, 6))
    expected = net.with_norms_training(x).numpy()
    path = exported(net.train(), x, tmp_path / "net.onnx", training=torch.onnx.TrainingMode.TRAINING)
    with opened(path, tmp_path) as session:
        trace = session.run(batch(x.numpy()))
        np.testing.assert_allclose(values(trace), expected, rtol=1e-4, atol=1e-4)
        first = trace.norm_calls[0]
        assert first.uses_batch and first.mixes_samples and not first.updates
        np.testing.assert_allclose(first.batch_mean, x.double().mean((0, 2, 3)).numpy(), rtol=1e-9, atol=1e-12)


def test_held_statistics_replace_the_batch_s(tmp_path: Path) -> None:
    net, x = Small(), torch.from_numpy(normal(6, 3, 6, 6))
    other = torch.from_numpy(normal(6, 3, 6, 6, seed=1))
    path = exported(net.train(), x, tmp_path / "net.onnx", training=torch.onnx.TrainingMode.TRAINING)
    with opened(path, tmp_path) as session:
        calls = session.run(batch(x.numpy()), watch=Watch.ROWS).norm_calls
        hold = tuple(Held(index=call.index, mean=call.batch_mean, var=call.batch_var) for call in calls)
        held = values(session.run(batch(other.numpy()), hold=hold))
    for module, statistics in zip((net.body[0], net.body[3]), hold, strict=True):
        module.running_mean.copy_(torch.from_numpy(statistics.mean))
        module.running_var.copy_(torch.from_numpy(statistics.var))
    with torch.no_grad():
        np.testing.assert_allclose(held, net.eval()(other).numpy(), rtol=1e-4, atol=1e-4)


def test_half_precision_graphs_keep_their_types(tmp_path: Path) -> None:
    tensors = {name: array.astype(np.float16) for name, array in PARAMETERS.items()}
    proto = model([node("BatchNormalization", NORM)], tensors)
    for declared in (*proto.graph.input, *proto.graph.output):
        declared.type.tensor_type.elem_type = TensorProto.FLOAT16
    x = normal(5, 4, 8, 8)
    with opened(proto, tmp_path) as session:
        trace = session.run(batch(x))
        trained = session.run(batch(x), Mode.TRAINING_NORMS)
    assert (trace.outputs[0].dtype, trace.compute_dtype) == ("float16", "float16")
    assert trained.outputs[0].dtype == "float16"
    wide = x.astype(np.float16).astype(np.float64)
    mean, var = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    np.testing.assert_allclose(trained.norm_calls[0].batch_mean, mean, rtol=1e-9, atol=1e-12)
    shape = (1, 4, 1, 1)
    expected = (wide - mean.reshape(shape)) / np.sqrt(var + 1e-5).reshape(shape) * GAMMA.reshape(shape)
    np.testing.assert_allclose(values(trained), expected + BETA.reshape(shape), atol=0.02)


def test_bfloat16_outputs_are_widened(tmp_path: Path) -> None:
    proto = model([node("Cast", ["x"], to=TensorProto.BFLOAT16)])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    x = normal(2, 4, 8, 8)
    with opened(proto, tmp_path) as session:
        for watch in Watch:
            (output,) = session.run(batch(x), watch=watch).outputs
            assert (output.name, output.dtype, output.values.dtype) == ("y", "bfloat16", np.float32)
            np.testing.assert_array_equal(output.values, torch.from_numpy(x).bfloat16().float().numpy())


def test_inputs_of_bfloat16_are_rounded(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), node("BatchNormalization", ["f", *PARAMETERS])]
    proto = model(nodes, PARAMETERS)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    x = normal(3, 4, 8, 8)
    with opened(proto, tmp_path) as session:
        assert session.signatures[0][0].dtype == "bfloat16"
        calls = session.run(batch(x), watch=Watch.ROWS).norm_calls
    rounded = torch.from_numpy(x).bfloat16().double()
    np.testing.assert_allclose(calls[0].sample_mean, rounded.mean((2, 3)).numpy(), rtol=1e-9, atol=1e-12)


def test_inner_values_of_bfloat16_are_watched(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
        node("BatchNormalization", ["f", *PARAMETERS]),
    ]
    x = normal(3, 4, 8, 8)
    with opened(model(nodes, PARAMETERS), tmp_path) as session:
        assert session.runner.startswith("onnxruntime")
        trace = session.run(batch(x), watch=Watch.ROWS)
        trained = session.run(batch(x), Mode.TRAINING_NORMS, Watch.ROWS)
    assert trace.compute_dtype == "bfloat16"
    assert all(call.rows_out is not None for call in (*trace.operators, *trained.operators))
    rounded = torch.from_numpy(x).bfloat16().double()
    np.testing.assert_allclose(trained.norm_calls[0].batch_mean, rounded.mean((0, 2, 3)).numpy(), rtol=1e-9, atol=1e-12)


def test_a_graph_without_batch_norms_has_one_mode(tmp_path: Path) -> None:
    with opened(model([node("Relu", ["x"])]), tmp_path) as session:
        assert session.modes == {Mode.INFERENCE}
        with pytest.raises(NotPossibleError, match="training norms"):
            session.run(batch(normal(2, 4, 8, 8)), Mode.TRAINING_NORMS)


def test_statistics_that_are_computed_can_be_held(tmp_path: Path) -> None:
    axes = numpy_helper.from_array(np.array([0, 2, 3]), "axes")
    nodes = [
        node("ReduceMean", ["x", "axes"], ["m"]),
        node("Sub", ["x", "m"], ["d"]),
        node("Mul", ["d", "d"], ["s"]),
        node("ReduceMean", ["s", "axes"], ["v"]),
        node("Add", ["v", "e"], ["ve"]),
        node("Sqrt", ["ve"], ["sd"]),
        node("Div", ["d", "sd"], ["y"]),
    ]
    proto = model(nodes, {"axes": axes, "e": np.float32(1e-3)}, opset=18)
    x = normal(5, 4, 8, 8)
    with opened(proto, tmp_path) as session:
        trace = session.run(batch(x, anchors=(0, 4)), watch=Watch.ROWS)
        (call,) = trace.norm_calls
        assert (call.kind, call.uses_batch, call.values_per_statistic, call.values_per_sample) == (
            NormKind.BATCH,
            True,
            5 * 64,
            64,
        )
        np.testing.assert_allclose(call.batch_mean, x.mean((0, 2, 3)), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(call.batch_var, x.var((0, 2, 3)), rtol=1e-5)
        held = session.run(batch(x), hold=(Held(index=0, mean=MEAN.astype(float), var=VAR.astype(float)),))
        assert {each.norm for each in trace.operators} == {0}
    expected = (x - MEAN.reshape(1, 4, 1, 1)) / np.sqrt(VAR.reshape(1, 4, 1, 1) + 1e-3)
    np.testing.assert_allclose(values(held), expected, rtol=1e-5, atol=1e-5)


def test_a_norm_without_known_statistics_cannot_be_held(tmp_path: Path) -> None:
    proto = model([node("MeanVarianceNormalization", ["x"])])
    with opened(proto, tmp_path) as session:
        held = Held(index=0, mean=MEAN.astype(float), var=VAR.astype(float))
        with pytest.raises(NotPossibleError, match="cannot be held"):
            session.run(batch(normal(2, 4, 8, 8)), hold=(held,))


def test_old_files_list_their_weights_among_the_inputs(tmp_path: Path) -> None:
    proto = model([node("BatchNormalization", NORM)], PARAMETERS, opset=9)
    proto.ir_version = 3
    for name, array in PARAMETERS.items():
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
    with opened(proto, tmp_path) as session:
        assert [each.name for each in session.signatures[0]] == ["x"]
        assert session.run(batch(normal(2, 4, 8, 8)), watch=Watch.MOMENTS).norm_calls[0].sample_mean is not None


def test_weights_beside_the_model_stay_there(tmp_path: Path) -> None:
    weight = normal(4, 4, 3, 3, seed=5)
    proto = model([node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", *PARAMETERS])], PARAMETERS)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = normal(3, 4, 8, 8)
    with opened(path, tmp_path) as session:
        plain = values(session.run(batch(x), watch=Watch.ROWS))
        trained = session.run(batch(x), Mode.TRAINING_NORMS)
    inner = torch.conv2d(torch.from_numpy(x).double(), torch.from_numpy(weight).double())
    np.testing.assert_allclose(
        plain, torch.batch_norm(inner, *_tensors(), False, 0.1, 1e-5, False).numpy(), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(trained.norm_calls[0].batch_mean, inner.mean((0, 2, 3)).numpy(), atol=1e-6)


def _tensors() -> list[torch.Tensor]:
    return [torch.from_numpy(array).double() for array in (GAMMA, BETA, MEAN, VAR)]


def test_a_graph_has_no_gradients_and_no_train(tmp_path: Path) -> None:
    with opened(model([node("Relu", ["x"])]), tmp_path) as session:
        assert session.trained() is None
        assert session.carrier is Carrier.GRAPH
        with pytest.raises(NotPossibleError, match="gradients"):
            session.influence(batch(normal(2, 4, 8, 8)))


def test_what_a_graph_raises_is_one_sentence_with_the_node(tmp_path: Path) -> None:
    proto = model([node("Reshape", ["x", "shape"], name="odd")], {"shape": np.array([7, -1])})
    with opened(proto, tmp_path) as session, pytest.raises(RunError, match="Reshape node odd") as caught:
        session.run(batch(normal(2, 4, 8, 8)))
    assert "\n" not in str(caught.value) and "onnxruntime/core" not in str(caught.value)
