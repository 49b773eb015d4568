"""Faults that no hypothesis says: whatever comes near, nothing may be called an explanation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from planted_causes import Array, Change, inputs, logged, net, norms, scores
from torch import nn

from bnaudit.diagnosis import Conclusion
from bnaudit.run_options import RunOptions
from bnaudit.triaging import triage
from sample_models import digits

CONFIDENT = (Conclusion.EXPLAINED, Conclusion.UP_TO_PRECISION, Conclusion.NOTHING_TO_EXPLAIN)


def blurred(x: Array) -> Array:
    return F.avg_pool2d(F.pad(torch.from_numpy(x), (1, 1, 1, 1), mode="replicate"), 3, 1).numpy()


@torch.enable_grad()
def trained_on(model: nn.Module) -> nn.Module:
    """Another checkpoint of the same training."""
    model.train().requires_grad_(True)
    labels = torch.from_numpy(np.load(digits.__file__.replace("digits.py", "digits.npz"))["labels"][:64])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.from_numpy(inputs(64))), labels).backward()
        optimizer.step()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def scaled_convolution(model: nn.Module) -> None:
    model.get_parameter("layer1.0.conv2.weight").mul_(1.1)


@torch.no_grad()
def pruned(model: nn.Module) -> None:
    model.get_parameter("layer1.0.conv1.weight")[3].zero_()


@torch.no_grad()
def quantized(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            step = module.weight.abs().max() / 127
            module.weight.copy_((module.weight / step).round() * step)


@torch.no_grad()
def stale(model: nn.Module) -> None:
    for module in norms(model).values():
        module.get_buffer("running_mean").mul_(0.9)


@torch.no_grad()
def variances_lost(model: nn.Module) -> None:
    for module in norms(model).values():
        module.get_buffer("running_var").fill_(1.0)


class Smooth(digits.DigitNet):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer2(self.layer1(F.gelu(self.bn1(self.conv1(x)))))
        return self.fc(self.dropout(x.mean((2, 3))))


def with_gelu(model: nn.Module) -> nn.Module:
    other = Smooth()
    other.load_state_dict(model.state_dict())
    return other.eval()


def dropping(model: nn.Module) -> None:
    torch.manual_seed(1)
    model.get_submodule("dropout").train()


OTHER_MODELS: dict[str, Change] = {
    "another checkpoint": trained_on,
    "a scaled convolution": scaled_convolution,
    "a pruned channel": pruned,
    "GELU for ReLU": with_gelu,
    "quantized weights": quantized,
    "stale means": stale,
    "variances lost, means kept": variances_lost,
    "dropout": dropping,
}
OTHER_INPUTS: dict[str, Callable[[Array], Array]] = {
    "contrast": lambda x: (x - x.mean()) * 0.9 + x.mean(),
    "a slight contrast": lambda x: (x - x.mean()) * 0.999 + x.mean(),
    "brightness": lambda x: x + 0.01,
    "blur": blurred,
    "shift": lambda x: np.roll(x, 1, axis=3),
    "noise": lambda x: x + 0.02 * np.random.default_rng(0).standard_normal(x.shape),
}


@pytest.mark.parametrize("fault", [*OTHER_MODELS, *OTHER_INPUTS])
def test_a_fault_that_is_on_no_list_is_not_explained(fault: str) -> None:
    fed = np.asarray(OTHER_INPUTS.get(fault, lambda x: x)(inputs()), dtype=np.float32)
    logits = scores(net(), fed, OTHER_MODELS.get(fault, lambda model: None))
    found = triage(None, logged(logits, "float32"), RunOptions(model=net(), inputs=inputs(), budget=2.0))
    assert found.conclusion in (Conclusion.NOT_EXPLAINED, Conclusion.CONSISTENT), found.reason
    assert found.conclusion is Conclusion.NOT_EXPLAINED or found.families[0].name == "dropout"
    assert found.exit_code in (1, 3)
    assert all(each.residual > each.floor for each in found.tried if each.hypothesis.variation.dtype == "")


@pytest.mark.parametrize("fault", ["contrast", "a scaled convolution"])
def test_noise_on_top_makes_no_explanation_of_it(fault: str) -> None:
    fed = np.asarray(OTHER_INPUTS.get(fault, lambda x: x)(inputs()), dtype=np.float32)
    logits = scores(net(), fed, OTHER_MODELS.get(fault, lambda model: None))
    found = triage(None, logged(logits, "noisy"), RunOptions(model=net(), inputs=inputs(), budget=2.0))
    assert found.conclusion not in CONFIDENT, found.reason
