"""Nets with weight standardization before GroupNorm, by the batch norm operator and spelled out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


class StandardizedConv2d(nn.Conv2d):
    """By the operator of batch norm, in training form, on the weight (timm's)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = F.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None, training=True, momentum=0.0, eps=1e-6
        ).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class SpelledStandardizedConv2d(nn.Conv2d):
    """By reductions over each filter (big_vision's)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        variance = self.weight.var((1, 2, 3), keepdim=True, unbiased=False)
        weight = (self.weight - mean) * torch.rsqrt(variance + 1e-6)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class StandardizedNet(nn.Module):
    """Three standardized convolutions, each with a GroupNorm, the last two with a shortcut around them."""

    def __init__(self, conv: type[nn.Conv2d]) -> None:
        super().__init__()
        self.conv1, self.norm1 = conv(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.conv2, self.norm2 = conv(8, 12, 3, stride=2, padding=1), nn.GroupNorm(3, 12)
        self.conv3, self.norm3 = conv(12, 12, 3, padding=1), nn.GroupNorm(3, 12)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.fc(torch.relu(x + self.norm3(self.conv3(x))).mean((2, 3)))


class StandardizedNetWithBatchNorm(nn.Module):
    """Standardized weights in front of a batch norm: the same operator in both of its meanings."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = StandardizedConv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = StandardizedConv2d(8, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(torch.relu(self.bn2(self.conv2(x))).mean((2, 3)))


ARCHITECTURES = [
    Architecture(
        "weight-standardised net", lambda: fitted(StandardizedNet(StandardizedConv2d), images(), steps=40), images
    ),
    Architecture(
        "weight-standardised net, spelled out",
        lambda: fitted(StandardizedNet(SpelledStandardizedConv2d), images(), steps=40),
        images,
    ),
    Architecture(
        "weight-standardised net with batch norm",
        lambda: fitted(StandardizedNetWithBatchNorm(), images(), steps=60),
        images,
    ),
]
