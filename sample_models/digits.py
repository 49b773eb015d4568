"""The architectures of the samples: small residual networks for 8 × 8 images of digits, plain PyTorch.

Every factory returns a fresh module in training mode. Input: float32 (N, 1, 8, 8) in [0, 1]; output: logits (N, 10).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class ResidualBlock(nn.Module):
    """conv, norm, ReLU, conv, norm, and a shortcut that is projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = norm(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), norm(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class DigitNet(nn.Module):
    """A stem, two residual stages, dropout and a linear classifier; `norm(channels)` makes its norm layers."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d, width: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.bn1 = norm(width)
        self.layer1 = nn.Sequential(ResidualBlock(width, width, 1, norm))
        self.layer2 = nn.Sequential(ResidualBlock(width, 2 * width, 2, norm))
        self.dropout = nn.Dropout(0.1)
        self.fc: nn.Module = nn.Linear(2 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(self.dropout(x.mean((2, 3))))


class CheckpointedDigitNet(DigitNet):
    """Recomputes its second stage in the backward pass to save memory, so that its norms see every batch twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(torch.relu(self.bn1(self.conv1(x))))
        x = checkpoint(self.layer2, x, use_reentrant=False)
        return self.fc(self.dropout(x.mean((2, 3))))


class PlainListNet(nn.Module):
    """Keeps its norm layers in a plain list: eval(), state_dict() and to() do not reach them."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)])
        self.norms = [nn.BatchNorm2d(width), nn.BatchNorm2d(width)]
        self.fc = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = torch.relu(norm(conv(x)))
        return self.fc(x.mean((2, 3)))


def keras_norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm as ports from Keras configure it: Keras' epsilon, and no further updates."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.0)


def untracked_norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm without running statistics: it normalizes with the batch in evaluation too."""
    return nn.BatchNorm2d(channels, track_running_stats=False)


def group_norm(channels: int) -> nn.GroupNorm:
    """Four groups: no batch, no buffers, no modes."""
    return nn.GroupNorm(4, channels)


def build() -> DigitNet:
    """The model of all samples that do not say otherwise."""
    return DigitNet()


def build_finetune() -> DigitNet:
    """`build` with a new head of its own: linear, norm, ReLU, linear."""
    net = DigitNet()
    net.fc = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))
    return net


def build_checkpointed() -> CheckpointedDigitNet:
    """`build` with activation checkpointing of the second stage."""
    return CheckpointedDigitNet()


def build_plain_list() -> PlainListNet:
    """Two norm layers hidden in a list."""
    return PlainListNet()


def build_keras_port() -> DigitNet:
    """`build` with the configuration of a port from Keras."""
    return DigitNet(keras_norm)


def build_untracked() -> DigitNet:
    """`build` with `track_running_stats=False`."""
    return DigitNet(untracked_norm)


def build_group_norm() -> DigitNet:
    """`build` with group norm everywhere."""
    return DigitNet(group_norm)
