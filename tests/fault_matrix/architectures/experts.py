"""Mixtures of experts: each token by its own choice, and one whose experts take only so many of a batch by design."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture, Design
from torch import nn

_WIDTH = 24


def _expert(hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(_WIDTH, hidden), nn.Tanh(), nn.Linear(hidden, _WIDTH))


class Experts(nn.Module):
    """The likeliest of eight experts for each sample; every expert sees only the samples that chose it.

    They are so wide that kernels round differently for another number of rows: companions move a prediction by 1e-7.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(_WIDTH, 8)
        self.experts = nn.ModuleList(_expert(513) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows].unsqueeze(1))
        return x + out


class CrowdedExperts(nn.Module):
    """Two experts that take at most five eighths of a batch each, the surest first: the others pass by."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(_WIDTH, 2)
        self.experts = nn.ModuleList(_expert(96) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gates = self.gate(x).softmax(1)
        queue = gates.argsort(0, descending=True).argsort(0)  # each sample's place in each expert's queue
        taken = gates * (queue * 8 < x.shape[0] * 5)
        for number, expert in enumerate(self.experts):
            x = x + taken[:, number : number + 1] * expert(x)
        return x


class ExpertNet(nn.Module):
    """Two convolutions with batch norm, the experts on pooled features, a classifier."""

    def __init__(self, experts: nn.Module) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12)
        self.conv2, self.bn2 = nn.Conv2d(12, _WIDTH, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(_WIDTH)
        self.experts, self.norm, self.fc = experts, nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x))).mean((2, 3))
        return self.fc(self.norm(self.experts(x)))


ARCHITECTURES = [
    Architecture("mixture of experts", lambda: fitted(ExpertNet(Experts()), images(), steps=60), images),
    Architecture(
        "mixture of experts with a capacity",
        lambda: fitted(ExpertNet(CrowdedExperts()), images()),
        images,
        # How many a batch of one may send is another share of it, which shows where all samples choose one expert.
        designs=(Design("BN301", "experts", (("BN301", "experts*"), ("BN301", ""), ("BN303", ""))),),
    ),
]
