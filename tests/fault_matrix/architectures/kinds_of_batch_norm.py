"""Nets with SyncBatchNorm, which one process never synchronizes, and with torchvision's frozen batch norm."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


class Net(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(x + self.bn2(self.conv2(x)))
        return self.fc(torch.relu(self.bn3(self.conv3(x))).mean((2, 3)))


class FrozenBatchNorm2d(nn.Module):
    """torchvision's: four buffers and arithmetic, nothing that trains and no counter."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.eps = norm.eps
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, getattr(norm, name).detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)


def _frozen_backbone() -> nn.Module:
    """A trained net whose first two norms are frozen; the rest is trained on."""
    net: nn.Module = fitted(Net(), images())
    net.bn1, net.bn2 = FrozenBatchNorm2d(net.bn1), FrozenBatchNorm2d(net.bn2)
    net.conv1.requires_grad_(False)
    net.conv2.requires_grad_(False)
    return fitted(net, images(), steps=30)


def _all_frozen() -> nn.Module:
    net: nn.Module = fitted(Net(), images())
    net.bn1, net.bn2, net.bn3 = (FrozenBatchNorm2d(norm) for norm in (net.bn1, net.bn2, net.bn3))
    return net.eval()


ARCHITECTURES = [
    Architecture(
        "net with SyncBatchNorm",
        lambda: fitted(nn.SyncBatchNorm.convert_sync_batchnorm(Net()), images(), steps=60),
        images,
        left_out={"scripted": "torch.jit.script cannot read torch.distributed, which its forward() asks"},
    ),
    Architecture("net with a frozen backbone", _frozen_backbone, images),
    Architecture("net of frozen batch norms", _all_frozen, images),
]
