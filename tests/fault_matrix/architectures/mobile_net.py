"""A net as MobileNetV3: inverted residuals, depthwise convolutions, squeeze-and-excite, its epsilon and momentum."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn
from torch.nn import functional


def convolved(before: int, after: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution and norm; MobileNetV3 has epsilon 0.001 and momentum 0.01."""
    conv = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after, eps=1e-3, momentum=0.01))


class Squeeze(nn.Module):
    """Scales the channels by a look at all places."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * functional.hardsigmoid(self.fc2(torch.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    """Expand, filter every channel by itself, project; the projection has no activation."""

    def __init__(self, before: int, wide: int, after: int, stride: int) -> None:
        super().__init__()
        self.expand = convolved(before, wide, 1)
        self.depthwise = convolved(wide, wide, 3, stride, groups=wide)
        self.squeeze = Squeeze(wide)
        self.project = convolved(wide, after, 1)
        self.adds = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.hardswish(self.expand(x))
        y = self.squeeze(functional.hardswish(self.depthwise(y)))
        y = self.project(y)
        return x + y if self.adds else y


class MobileNet(nn.Module):
    """A stem, two inverted residuals and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolved(3, 8, 3), nn.Hardswish(), InvertedResidual(8, 16, 8, 1), InvertedResidual(8, 16, 12, 2)
        )
        self.classifier = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


def build() -> nn.Module:
    """With a momentum of 0.01 it takes 300 steps until less than 5 % of the initial statistics are left."""
    return fitted(MobileNet(), images(size=8), steps=300)


ARCHITECTURES = [Architecture("MobileNet", build, lambda: images(size=8))]
