"""A U-Net: skips over two scales, transposed convolutions on the way up, a label per pixel."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


def twice(before: int, after: int) -> nn.Sequential:
    """Convolution, norm, ReLU, and again."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Two steps down, two up."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = twice(1, 6), twice(6, 8), twice(8, 12)
        self.up2, self.up1 = nn.ConvTranspose2d(12, 8, 2, stride=2), nn.ConvTranspose2d(8, 6, 2, stride=2, bias=False)
        self.up1_norm = nn.BatchNorm2d(6)
        self.join2, self.join1 = twice(16, 8), twice(12, 6)
        self.head = nn.Conv2d(6, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        bottom = self.bottom(nn.functional.max_pool2d(second, 2))
        up = self.join2(torch.cat((self.up2(bottom), second), 1))
        up = torch.relu(self.up1_norm(self.up1(up)))
        return self.head(self.join1(torch.cat((up, first), 1)))


ARCHITECTURES = [Architecture("U-Net", lambda: fitted(UNet(), images(1, 8)), lambda: images(1, 8))]
