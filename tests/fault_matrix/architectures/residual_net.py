"""ResNets whose residual branches end in a norm that starts at gamma 0: trained from there, and left there."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


class Block(nn.Module):
    """A basic block with zero-init residual; a change of shape passes through a convolution and a norm."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.downsample = nn.Sequential()
        if before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        nn.init.zeros_(self.bn2.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet(nn.Module):
    """A stem, three blocks and a classifier, with the names of torchvision's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(Block(8, 8, 1), Block(8, 8, 1))
        self.layer2 = nn.Sequential(Block(8, 12, 2))
        self.fc = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


def trained() -> nn.Module:
    return fitted(ResNet(), images())


def left_at_zero() -> nn.Module:
    """The gamma of every residual stays 0, as when its learning rate is 0: the branch adds its beta alone."""
    net = ResNet()
    for block in net.modules():
        if isinstance(block, Block):
            block.bn2.weight.requires_grad_(False)
    return fitted(net, images()).requires_grad_(True)


ARCHITECTURES = [
    Architecture("ResNet, zero-init residuals", trained, images),
    Architecture("ResNet, residuals left at zero", left_at_zero, images),
    Architecture("ResNet, fresh", ResNet, images, is_control=True),
]
