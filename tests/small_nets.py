"""Small real networks with every kind of norm, trained for real, so that their files are as trainers write them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Norm = Callable[[int], nn.Module]
IMAGES = (8, 3, 8, 8)


class Block(nn.Module):
    """A residual block; the shortcut has a norm of its own where the width changes."""

    def __init__(self, inputs: int, outputs: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = norm(outputs)
        shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), norm(outputs))
        self.downsample: nn.Module = shortcut if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet(nn.Module):
    """Ten norms: a stem, two stages of two blocks, a shortcut."""

    def __init__(self, norm: Norm = nn.BatchNorm2d, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = norm(8)
        self.layer1 = nn.Sequential(Block(8, 8, norm), Block(8, 8, norm))
        self.layer2 = nn.Sequential(Block(8, 16, norm), Block(16, 16, norm))
        self.fc: nn.Module = nn.Linear(16, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


class PreNorm(nn.Module):
    """Batch norms that no exporter can fold into the convolution before them."""

    def __init__(self, norm: Norm = nn.BatchNorm2d) -> None:
        super().__init__()
        self.bn0 = norm(3)
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.bn1 = norm(8)
        self.conv2 = nn.Conv2d(8, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(torch.relu(self.bn1(torch.relu(self.conv1(self.bn0(x)))))).mean((2, 3))


class StandardizedConv2d(nn.Conv2d):
    """Its weight is standardized with the operator of batch norm in training form (timm's StdConv2d)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(rows, None, None, training=True, momentum=0.0, eps=1e-5).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias)


class SpelledStandardizedConv2d(nn.Conv2d):
    """Its weight is standardized with reductions (big_vision's)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        deviation = self.weight.std((1, 2, 3), keepdim=True) + 1e-5
        return F.conv2d(x, (self.weight - mean) / deviation, self.bias)


class WeightStandardized(nn.Module):
    """Both kinds of standardized convolutions, a group norm and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = StandardizedConv2d(3, 8, 3)
        self.gn = nn.GroupNorm(2, 8)
        self.conv2 = SpelledStandardizedConv2d(8, 8, 3)
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn(self.conv2(torch.relu(self.gn(self.conv1(x))))))


class SharedHead(nn.Module):
    """A head that runs on three levels of a pyramid, so that its norm counts three batches for one of the stem's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.stem_bn = nn.BatchNorm2d(8)
        self.head = nn.Conv2d(8, 8, 3, padding=1)
        self.head_bn = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem_bn(self.stem(x)))
        fine, middle = (self.head_bn(self.head(F.avg_pool2d(x, size))).mean((2, 3)) for size in (1, 2))
        return fine + middle + self.head_bn(self.head(F.avg_pool2d(x, 4))).mean((2, 3))


class MixtureOfExperts(nn.Module):
    """A gate and four experts with layer norms behind a batch norm; rotary tables as buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)) for _ in range(4))
        self.register_buffer("inv_freq", torch.arange(1.0, 5.0))
        self.register_buffer("cos_cached", torch.linspace(-1.0, 1.0, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.conv(x))).mean((2, 3)) * self.cos_cached
        answers = torch.stack([expert(x) for expert in self.experts], 1)
        return (self.gate(x).softmax(-1).unsqueeze(-1) * answers).sum(1)


class FrozenBatchNorm2d(nn.Module):
    """torchvision's: class version 1, four buffers, no counter."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        generator = torch.Generator().manual_seed(channels)
        for name, low in (("weight", 0.5), ("bias", -0.5), ("running_mean", -0.5), ("running_var", 0.1)):
            self.register_buffer(name, torch.rand(channels, generator=generator) + low)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return x * scale.reshape(1, -1, 1, 1) + (self.bias - self.running_mean * scale).reshape(1, -1, 1, 1)


class DetectronFrozenBatchNorm2d(FrozenBatchNorm2d):
    """detectron2's: class version 3."""

    _version = 3


INSTANCE_NORMS: dict[str, Norm] = {
    "plain": nn.InstanceNorm2d,
    "affine": partial(nn.InstanceNorm2d, affine=True),
    "tracking": partial(nn.InstanceNorm2d, track_running_stats=True),
    "affine and tracking": partial(nn.InstanceNorm2d, affine=True, track_running_stats=True),
}


def trained(net: nn.Module, steps: int = 60, shape: tuple[int, ...] = IMAGES, seed: int = 0) -> nn.Module:
    """The net after some steps of SGD on noise; in training mode, as trainers leave it."""
    torch.manual_seed(seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a net only waits for threads
    parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9) if parameters else None
    net.train()
    for _ in range(steps):
        answer = net(torch.randn(shape) * 1.5 + 0.3)
        if optimizer is not None:
            optimizer.zero_grad()
            (answer.pow(2).mean() + (answer - 1).abs().mean()).backward()
            optimizer.step()
    torch.set_num_threads(threads)
    return net


@cache
def _resnet(seed: int) -> nn.Module:
    return trained(ResNet(), seed=seed)


@cache
def _trained_on(seed: int) -> nn.Module:
    return trained(resnet(seed), 3, seed=9)


def resnet(seed: int = 0) -> Any:
    """A trained residual net of its own, in training mode; training is paid for once."""
    return copy.deepcopy(_resnet(seed))


def average(seed: int = 0) -> Any:
    """The same net three steps later, as an average that runs over the buffers, too."""
    return copy.deepcopy(_trained_on(seed))


def optimizer_of(net: nn.Module, steps: int = 60) -> torch.optim.Optimizer:
    """An Adam that has made some steps on the net, of which only the first is real, and moved nothing."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for state in optimizer.state.values():
        state["step"].fill_(steps)
    optimizer.zero_grad()
    return optimizer
