"""Mixtures of experts: each token by its own choice, and one whose experts take only so many of a batch by design."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture, Design
from torch import nn

_WIDTH = 24


def _expert() -> nn.Module:
    return nn.Sequential(nn.Linear(_WIDTH, 97), nn.GELU(), nn.Linear(97, _WIDTH))  # wide: kernels round by rows


class Experts(nn.Module):
    """The two likeliest of four experts for each sample; every expert sees only the samples that chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(_WIDTH, 4)
        self.experts = nn.ModuleList(_expert() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(1).topk(2, 1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, places].unsqueeze(1))
        return x + out


class CrowdedExperts(nn.Module):
    """Two experts that take at most five eighths of a batch each, the surest first: the others pass by."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(_WIDTH, 2)
        self.experts = nn.ModuleList(_expert() for _ in range(2))

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
    Architecture("mixture of experts", lambda: fitted(ExpertNet(Experts()), images()), images),
    Architecture(
        "mixture of experts with a capacity",
        lambda: fitted(ExpertNet(CrowdedExperts()), images()),
        images,
        designs=(Design("BN301", "experts", (("BN301", "experts*"), ("BN301", ""))),),
    ),
]
