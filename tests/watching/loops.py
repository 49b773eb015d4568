"""Small nets and plain training loops to watch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


def net(channels: int = 4, **options: object) -> nn.Sequential:
    """Two norms: `1` and `4`."""
    torch.manual_seed(0)
    norm: Callable[..., nn.Module] = nn.BatchNorm1d
    return nn.Sequential(
        nn.Linear(3, channels),
        norm(channels, **options),
        nn.ReLU(),
        nn.Linear(channels, channels),
        norm(channels, **options),
        nn.Linear(channels, 2),
    )


def batch(seed: int = 0, size: int = 16) -> torch.Tensor:
    """Standard normal rows for `net`."""
    return torch.randn(size, 3, generator=torch.Generator().manual_seed(seed))


def train(model: nn.Module, steps: int = 3, inputs: Callable[[int], torch.Tensor] = batch) -> None:
    """A plain loop. The data of a step depend on its number alone."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(steps):
        loss = model(inputs(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class BatchInEval(nn.BatchNorm1d):
    """Normalizes with the batch, and updates, in both modes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True, 0.1)
