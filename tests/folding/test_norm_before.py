"""A norm that stands before its convolution: folded exactly where nothing is padded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from builders import batch_norm
from folded_layers import Held, folds_of
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from bnaudit.comparison import FoldCause, LinearLayer
from bnaudit.folding.causes import judge
from bnaudit.folding.measuring import Weighed, weigh
from bnaudit.folding.norm_state import NormState, norm_state

MODULES = {
    "conv": lambda: nn.Conv2d(6, 10, 3),
    "grouped": lambda: nn.Conv2d(6, 12, 3, groups=3),
    "depthwise": lambda: nn.Conv1d(6, 6, 3, groups=6),
    "linear": lambda: nn.Linear(6, 9),
}


def layer(module: nn.Module, weight: torch.Tensor, bias: torch.Tensor) -> LinearLayer:
    operator = "linear" if isinstance(module, nn.Linear) else "conv"
    return LinearLayer(
        name="conv",
        operator=operator,
        weight=Held(weight.detach().float().numpy()),
        bias=Held(bias.detach().float().numpy()),
        groups=getattr(module, "groups", 1),
    )


def folded(module: nn.Module, gain: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """By asking the module itself: its bias answers a constant input, its weight is linear in the gain."""
    weight = module.weight.detach().double()  # type: ignore[operator, union-attr]
    groups = getattr(module, "groups", 1)
    if isinstance(module, nn.Linear):
        scaled = weight * gain
    else:
        parts = weight.reshape(groups, -1, *weight.shape[1:])
        scaled = (parts * gain.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))).reshape(weight.shape)
    kernel = [4] * (weight.ndim - 2)
    constant = shift.reshape(1, -1, *[1] * len(kernel)).expand(1, -1, *kernel)
    answer = module.double()(constant)
    bias = answer.reshape(answer.shape[1], -1)[:, answer[0, 0].numel() // 2] if kernel else answer[0]
    return scaled, bias


def pair(name: str, **changes: float) -> tuple[Weighed, NormState]:
    torch.manual_seed(3)
    module = MODULES[name]()
    random = np.random.default_rng(1)
    mean, gamma, beta = (random.normal(size=6).astype(np.float32) for _ in range(3))
    var = random.uniform(0.01, 2, 6).astype(np.float32)
    bn = batch_norm("bn", mean=mean, var=var, gamma=gamma, beta=beta, eps=1e-5)
    gain = torch.from_numpy(gamma / np.sqrt(var.astype(np.float64) + changes.get("eps", 1e-5)))
    shift = torch.from_numpy(beta * changes.get("beta", 1.0)) - torch.from_numpy(mean) * gain
    weight, bias = module.weight.detach().clone(), module.bias.detach().clone()
    new_weight, new_bias = folded(module, gain, shift)
    weighed = weigh(layer(module, weight, bias), layer(module, new_weight, new_bias), 6, before=True)
    state = norm_state(bn)
    assert weighed is not None and state is not None
    return weighed, state


@pytest.mark.parametrize("name", MODULES)
def test_a_right_fold_is_equal(name: str) -> None:
    assert judge(*pair(name)).cause is FoldCause.EQUAL


@pytest.mark.parametrize("name", MODULES)
def test_another_epsilon_is_solved(name: str) -> None:
    found = judge(*pair(name, eps=1e-3))
    assert (found.cause, found.eps) == (FoldCause.EPSILON, 1e-3)


@pytest.mark.parametrize("name", MODULES)
def test_beta_ignored_is_named(name: str) -> None:
    assert judge(*pair(name, beta=0.0)).cause is FoldCause.BETA_IGNORED


@pytest.mark.parametrize(("pads", "cause"), [([0] * 4, FoldCause.EQUAL), ([1] * 4, FoldCause.PADDING)])
def test_a_padded_convolution_is_not_exact_at_the_border(pads: list[int], cause: FoldCause, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    gamma, beta, mean, bias = (random.normal(size=4).astype("f4") for _ in range(4))
    var, weight = random.uniform(0.1, 2, 4).astype("f4"), random.normal(size=(4, 4, 3, 3)).astype("f4")
    gain = gamma / np.sqrt(var + np.float32(1e-5))
    shift = beta - mean * gain
    kept = [
        helper.make_node("BatchNormalization", ["x", "g", "b", "m", "v"], ["n"], name="bn"),
        helper.make_node("Conv", ["n", "w", "c"], ["y"], name="conv", pads=pads),
    ]
    weights = {"g": gamma, "b": beta, "m": mean, "v": var, "w": weight, "c": bias}
    baseline = graph(kept, weights, tmp_path / "kept.onnx")
    folded_bias = bias + (weight.sum((2, 3)) * shift).sum(1)
    subject = graph(
        [helper.make_node("Conv", ["x", "w", "c"], ["y"], name="conv", pads=pads)],
        {"w": weight * gain[None, :, None, None], "c": folded_bias.astype("f4")},
        tmp_path / "folded.onnx",
    )
    found = folds_of(subject, baseline)
    assert found is not None
    assert [(fold.layer, fold.before, fold.cause) for fold in found.folds] == [("bn", True, cause)], found
    assert ("not exact" in found.folds[0].detail) == (cause is FoldCause.PADDING)


def graph(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], path: Path) -> Path:
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path
