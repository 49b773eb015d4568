"""Nets whose weights are computed from others: weight norm and spectral norm, as hooks and as parametrizations."""

from __future__ import annotations

import warnings

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn
from torch.nn.utils import parametrizations


class Net(nn.Module):
    """Three convolutions, of which two have a batch norm, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv3, self.bn3 = nn.Conv2d(8, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12)
        self.fc1, self.fc2 = nn.Linear(12, 16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(x + self.conv2(x))
        x = torch.relu(self.bn3(self.conv3(x))).mean((2, 3))
        return self.fc2(torch.relu(self.fc1(x)))


def _parametrized() -> nn.Module:
    net = Net()
    for module in (net.conv1, net.fc1):
        parametrizations.weight_norm(module)
    for module in (net.conv2, net.conv3, net.fc2):
        parametrizations.spectral_norm(module)
    return fitted(net, images())


def _hooked() -> nn.Module:
    """The older way, with hooks that compute the weight before each forward."""
    net = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nn.utils.weight_norm(net.conv1)
        nn.utils.weight_norm(net.fc1)
    for module in (net.conv2, net.conv3, net.fc2):
        nn.utils.spectral_norm(module)
    fitted(net, images())
    with torch.no_grad():
        net(*images())  # the weights of the last forward hang on its graph, and could not be copied
    return net


ARCHITECTURES = [
    Architecture(
        "net with parametrizations",
        _parametrized,
        images,
        left_out={
            "pickled module": "torch.save refuses parametrized modules",
            "scripted": "torch.jit.script refuses a comprehension in spectral norm",
            **dict.fromkeys(("ONNX", "ONNX, folded"), "the older exporter knows no aten::vdot of spectral norm"),
        },
    ),
    Architecture(
        "net with weight and spectral norm hooks",
        _hooked,
        images,
        left_out={"scripted": "torch.jit.script refuses the hook, an object without a __name__"},
    ),
]
