"""What layers without parameters of their own are called: by PyTorch's own names, however containers are nested."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import bnaudit


class Branch(nn.Module):
    """Containers in a module, which is itself in a container."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.2), nn.Sequential(nn.Dropout(0.3))))
        self.drops = nn.ModuleList([nn.Dropout(0.4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drops[0](self.mlp(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Branch(), nn.Sequential(Branch()))
        self.branches = nn.ModuleList([Branch()])
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.branches[0](self.blocks(x)))


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_dropout_has_the_name_of_its_module(dynamo: bool, tmp_path: Path) -> None:
    net = Net().train()
    path = tmp_path / "net.onnx"
    if dynamo:
        torch.onnx.export(copy.deepcopy(net), (torch.randn(2, 4),), path, dynamo=True, verbose=False, optimize=False)
    else:
        modes = torch.onnx.TrainingMode.PRESERVE
        torch.onnx.export(copy.deepcopy(net), (torch.randn(2, 4),), path, dynamo=False, training=modes)
    (part,) = bnaudit.describe(path).parts
    names = {name for name, module in net.named_modules() if isinstance(module, nn.Dropout)}
    assert {entry.name for entry in part.mode_dependent} == names
