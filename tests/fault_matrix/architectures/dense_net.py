"""A DenseNet: every layer norms all features before it anew, so that several norms read the same features."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


class DenseLayer(nn.Module):
    """Norm, activation, convolution: what it adds is read by all layers behind it."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 2 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(2 * growth), nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        new = self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(features))))))
        return torch.cat((features, new), 1)


class DenseNet(nn.Module):
    """Two dense blocks with a transition between, and a norm before the classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0, self.norm0 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.block1 = nn.Sequential(DenseLayer(8, 4), DenseLayer(12, 4))
        self.transition = nn.Sequential(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1, bias=False), nn.AvgPool2d(2))
        self.block2 = nn.Sequential(DenseLayer(8, 4), DenseLayer(12, 4))
        self.norm5, self.classifier = nn.BatchNorm2d(16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm0(self.conv0(x)))
        x = self.block2(self.transition(self.block1(x)))
        return self.classifier(torch.relu(self.norm5(x)).mean((2, 3)))


ARCHITECTURES = [Architecture("DenseNet", lambda: fitted(DenseNet(), images(size=8)), lambda: images(size=8))]
