"""Graphs in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from onnx_builders import PARAMETERS, model, node
from onnx_sessions import batch, exported, normal, opened, values
from torch import nn

from bnaudit.onnx_session import double
from bnaudit.session import Mode, NotPossibleError


class Net(nn.Module):
    """Convolutions, depthwise too, with norms."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.head = nn.Linear(8, 5)
        self.norm.running_var.uniform_(0.5, 2)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.depthwise(torch.relu(self.norm(self.stem(x))))
        return torch.softmax(self.head(x.mean((2, 3))), -1)


@pytest.mark.parametrize("opset", [11, 17])
def test_float64_is_what_pytorch_computes_in_float64(tmp_path: Path, opset: int) -> None:
    net, x = Net(), torch.from_numpy(normal(4, 3, 6, 6))
    path = exported(net, x, tmp_path / "net.onnx", opset_version=opset)
    with opened(path, tmp_path) as session:
        session.run(batch(x.numpy()))
        with session.double() as wide:
            plain = wide.run(batch(x.numpy()))
            trained = wide.run(batch(x.numpy()), Mode.TRAINING_NORMS)
    assert (plain.outputs[0].dtype, plain.compute_dtype) == ("float64", "float64")
    with torch.no_grad():
        net.double()
        np.testing.assert_allclose(values(plain), net(x.double()).numpy(), rtol=1e-12)
        net.norm.train()
        np.testing.assert_allclose(values(trained), net(x.double()).numpy(), rtol=1e-12)


def test_noise_shrinks_and_dependence_does_not(tmp_path: Path) -> None:
    nodes = [node("BatchNormalization", ["x", *PARAMETERS], ["y", "a", "b"], training_mode=1)]
    x, other = normal(4, 4, 8, 8), normal(4, 4, 8, 8, seed=1)
    other[0] = x[0]
    with opened(model(nodes, PARAMETERS), tmp_path) as session, session.double() as wide:
        apart = [
            abs(values(each.run(batch(x)))[0] - values(each.run(batch(other)))[0]).max() for each in (session, wide)
        ]
    assert apart[0] > 1e-3
    assert apart[1] == pytest.approx(apart[0], rel=1e-3)


def test_casts_and_constants_are_widened_too(tmp_path: Path) -> None:
    half = np.array(1 / 3, np.float16)
    constant = helper.make_tensor("", TensorProto.FLOAT16, [], [float(half)])
    branch = helper.make_graph(
        [node("Constant", [], ["third"], value=constant), node("Add", ["h", "third"], ["inner"])],
        "b",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT16, None)],
    )
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch),
    ]
    x = normal(2, 4, 8, 8)
    proto = model(nodes, {"yes": np.array(True)})
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    with opened(proto, tmp_path) as session, session.double() as wide:
        np.testing.assert_array_equal(values(wide.run(batch(x))), x.astype(np.float64) + float(half))


def test_what_takes_too_long_or_draws_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = model([node("RandomNormalLike", ["x"])])
    with opened(drawing, tmp_path) as session, pytest.raises(NotPossibleError, match="random"):
        session.double()
    monkeypatch.setattr(double, "LONGEST", 0)
    with opened(model([node("MatMul", ["x", "x"])]), tmp_path) as session:
        session.run(batch(normal(2, 4, 8, 8)))
        with pytest.raises(NotPossibleError, match="a forward"):
            session.double()
