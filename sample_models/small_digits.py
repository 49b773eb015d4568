"""A smaller network for the digits; its norms stand behind an activation, so that no exporter can fold them.

Input: float32 (N, 1, 8, 8) in [0, 1]; output: logits (N, 10). Factories return a fresh module in training mode.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Norm = Callable[[int], nn.Module]
FEATURES = 32


class SmallNet(nn.Module):
    """Twice conv, ReLU, norm; pooled to 2 × 2; `middle`; a linear classifier."""

    def __init__(
        self, norm: Norm = nn.BatchNorm2d, second: Norm | None = None, middle: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.conv1: nn.Module = nn.Conv2d(1, 8, 3, padding=1)
        self.bn1 = norm(8)
        self.conv2: nn.Module = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.bn2 = (second or norm)(8)
        self.pool = nn.AvgPool2d(2)
        self.middle = middle or nn.Identity()
        self.fc: nn.Module = nn.Linear(FEATURES, 10)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(N, 32)"""
        x = self.bn1(torch.relu(self.conv1(x)))
        x = self.bn2(torch.relu(self.conv2(x)))
        return self.middle(self.pool(x).flatten(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(x))


def build_small() -> SmallNet:
    """The network that all others of its size are compared with."""
    return SmallNet()
