"""Multi-layer perceptrons over tables of numbers, with BatchNorm1d."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import SAMPLES, fitted
from fault_matrix.values import Architecture, Inputs
from torch import nn


def table(draw: int | None = None, count: int = SAMPLES) -> Inputs:
    """64 rows of 20 columns: some correlated, of scales from 0.1 to 100, one skewed; other rows for every `draw`."""
    generator = torch.Generator().manual_seed(11)
    hidden = torch.randn(SAMPLES, 6, generator=generator)
    weights = torch.randn(6, 20, generator=generator)
    if draw is not None:
        generator.manual_seed(1000 + draw)
        hidden = torch.randn(count, 6, generator=generator)
    columns = hidden @ weights + 0.5 * torch.randn(count, 20, generator=generator)
    columns = columns * torch.logspace(-1, 2, 20) + torch.linspace(-3, 3, 20)
    columns[:, 3] = columns[:, 3].abs()
    return (columns,)


class Perceptron(nn.Module):
    """A norm on the raw columns without gamma and beta, then linear, norm, ReLU, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.scaling = nn.BatchNorm1d(20, affine=False)
        self.layers = nn.Sequential(
            nn.Linear(20, 32),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Linear(32, 16, bias=False),
            nn.BatchNorm1d(16),
            nn.ReLU(),
        )
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.scaling(x)))


ARCHITECTURES = [Architecture("MLP with BatchNorm1d", lambda: fitted(Perceptron(), table(), 150), table)]
