"""Nets that norm every sample by itself: GroupNorm, and InstanceNorm plain, with gamma and beta, and with tracking."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


class Normed(nn.Module):
    """Three convolutions, each with a norm of this kind."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), norm(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), norm(12)
        self.conv3, self.norm3 = nn.Conv2d(12, 12, 3, padding=1, bias=False), norm(12)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.fc(torch.relu(self.norm3(self.conv3(x))).mean((2, 3)))


def build(norm: Callable[[int], nn.Module]) -> nn.Module:
    return fitted(Normed(norm), images())


_FIXED_BATCH = (
    "it writes an instance norm that tracks its statistics for one batch size alone: "
    '"ONNX export of instance_norm training for unknown batch size"'
)

ARCHITECTURES = [
    Architecture("GroupNorm net", partial(build, partial(nn.GroupNorm, 4)), images),
    Architecture("InstanceNorm net, plain", partial(build, nn.InstanceNorm2d), images),
    Architecture("InstanceNorm net, affine", partial(build, partial(nn.InstanceNorm2d, affine=True)), images),
    Architecture(
        "InstanceNorm net, tracking",
        partial(build, partial(nn.InstanceNorm2d, affine=True, track_running_stats=True)),
        images,
        left_out=dict.fromkeys(("ONNX", "ONNX, folded"), _FIXED_BATCH),
    ),
]
