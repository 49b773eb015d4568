"""Small nets for the TorchScript tests, and what must be read of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torchscript_builders import layers_of

from bnaudit.description import Evidence, NormLayer, Part

ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


class Block(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(out, momentum=0.3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.conv(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=1e-3), nn.ReLU())
        self.blocks = nn.ModuleList([Block(8, 8), Block(8, 4)])
        self.instance = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        self.group = nn.GroupNorm(2, 4, eps=1e-4)
        self.plain = nn.InstanceNorm2d(4)
        self.layer = nn.LayerNorm(4, eps=1e-6)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.plain(self.group(self.instance(x))).mean((2, 3))
        return self.fc(self.drop(self.layer(x)))


IMAGE = torch.randn(2, 3, 8, 8)
NAMES = ["stem.1", "blocks.0.bn", "blocks.1.bn", "instance", "group", "plain", "layer"]


def assert_tensors_equal(layer: NormLayer, module: nn.Module) -> None:
    for role in ROLES:
        expected, found = getattr(module, role, None), getattr(layer, role)
        assert (found is None) == (expected is None), role
        if found is not None:
            assert found.name == f"{layer.name}.{role}"
            assert found.dtype == str(expected.dtype).removeprefix("torch.")
            np.testing.assert_array_equal(found.values, expected.detach().double().numpy())
            assert found.requires_grad == expected.requires_grad


def assert_says(part: Part, net: nn.Module) -> None:
    """Names, kinds, numbers and values of all norm layers are those of the module."""
    layers = layers_of(part)
    kinds = {"stem.1": "batch", "blocks.0.bn": "batch", "blocks.1.bn": "batch", "group": "group", "layer": "layer"}
    assert list(layers) == NAMES
    for name, layer in layers.items():
        module = net.get_submodule(name)
        assert layer.kind.value == kinds.get(name, "instance")
        assert layer.evidence is Evidence.CLASS
        assert layer.class_name == f"{type(module).__module__}.{type(module).__qualname__}"
        assert layer.eps == pytest.approx(module.eps, rel=1e-12)
        assert layer.momentum == getattr(module, "momentum", None)
        assert layer.affine == (getattr(module, "weight", None) is not None)
        assert_tensors_equal(layer, module)
