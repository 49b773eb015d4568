"""Ordinary trainings from scratch, for real: the default settings never alarm."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from small_nets import ResNet
from torch import nn

import bnaudit

STEPS = 50
Optimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """scikit-learn's digits, (1797, 1, 8, 8) in 0 … 16, and their labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels)


class Residual(nn.Module):
    """Ten norms, images in three channels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = ResNet()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x.expand(-1, 3, -1, -1))


def dense() -> nn.Module:
    """Few values per statistic: as many as the batch has rows."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in ((64, 64), (64, 64), (64, 32)):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(32, 10))


def normalized_inputs() -> nn.Module:
    """The first norm sees the pixels themselves."""
    return nn.Sequential(
        nn.BatchNorm2d(1),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.BatchNorm2d(16, affine=False),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(144, 10),
    )


def sgd(rate: float) -> Optimizer:
    return lambda parameters: torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=1e-4)


def adam(rate: float) -> Optimizer:
    return lambda parameters: torch.optim.AdamW(parameters, rate)


@pytest.mark.parametrize("momentum", [0.01, 0.1, 1.0, None])
@pytest.mark.parametrize(("batch", "optimizer"), [(2, sgd(0.01)), (4, adam(1e-2)), (16, sgd(0.1)), (64, adam(1e-3))])
@pytest.mark.parametrize("make", [dense, normalized_inputs, Residual])
def test_a_training_from_scratch_never_alarms(
    make: Callable[[], nn.Module], batch: int, optimizer: Optimizer, momentum: float | None
) -> None:
    images, labels = digits()
    torch.manual_seed(batch)
    scale = 1.0 if momentum == 0.1 else 1 / 16
    model = make()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = momentum
    stepper = optimizer(list(model.parameters()))
    with bnaudit.watch(model) as guard:
        for _ in range(STEPS):
            rows = torch.randint(len(images), (batch,))
            loss = nn.functional.cross_entropy(model(images[rows] * scale), labels[rows])
            stepper.zero_grad()
            loss.backward()
            stepper.step()
    assert guard.forwards == STEPS


@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_fine_tuning_on_other_data_never_alarms(momentum: float) -> None:
    images, labels = digits()
    torch.manual_seed(0)
    model = Residual()
    stepper = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for step in range(2 * STEPS):
        if step == STEPS:
            images = 16.0 - images.flip(-1) * 0.7  # dark on bright, mirrored, with less contrast
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.momentum = momentum
        rows = torch.randint(len(images), (16,))
        with bnaudit.watch(model):
            loss = nn.functional.cross_entropy(model(images[rows] / 16), labels[rows])
        stepper.zero_grad()
        loss.backward()
        stepper.step()


def test_an_explosion_of_activations_does_alarm() -> None:
    images, labels = digits()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.LazyLinear(10)
    )
    stepper = torch.optim.SGD(model.parameters(), 0.01)
    found: list[str] = []
    with bnaudit.watch(model, on_violation=lambda violation: found.append(violation.invariant.value)):
        for step in range(60):
            rows = torch.randint(len(images), (16,))
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            stepper.zero_grad()
            loss.backward()
            if step == 40:
                assert not found
                stepper.param_groups[0]["lr"] = 1e4
            stepper.step()
            if found:
                break
    assert found[0] in ("steady", "finite")
