"""A siamese net: two inputs, one trunk, so that every norm of the trunk runs twice per forward."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import SAMPLES, fitted, images
from fault_matrix.values import Architecture, Inputs
from torch import nn


class Siamese(nn.Module):
    """Compares the features of two images; the norm of the comparison runs once, so it counts half as much."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU(),
        )
        self.compare = nn.Sequential(nn.Linear(24, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU())
        self.same = nn.Linear(16, 2)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        first, second = self.trunk(one).mean((2, 3)), self.trunk(other).mean((2, 3))
        return self.same(self.compare(torch.cat(((first - second).abs(), first * second), 1)))


def pairs() -> Inputs:
    """Each image beside one of the same population: half of them of its own class."""
    (first,) = images()
    order = torch.arange(SAMPLES)
    return first, first[torch.where(order % 2 == 0, (order + 10) % SAMPLES, (order + 7) % SAMPLES)]


ARCHITECTURES = [Architecture("siamese net", lambda: fitted(Siamese(), pairs()), pairs)]
