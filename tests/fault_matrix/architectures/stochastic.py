"""Nets with dropout and stochastic depth, off in eval mode; and one whose dropout stays on by design."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture, Design
from torch import nn


class DropPath(nn.Module):
    """Stochastic depth: drops the whole branch for some samples, in training mode (timm's)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.rate == 0.0:
            return x
        kept = 1.0 - self.rate
        return x * x.new_empty((x.shape[0], 1, 1, 1)).bernoulli_(kept) / kept


class Residual(nn.Module):
    """Two convolutions whose branch is dropped at times."""

    def __init__(self, channels: int, rate: float) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.drop_path = DropPath(rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(x + self.drop_path(y))


class StochasticDepth(nn.Module):
    """Residual blocks with stochastic depth, dropout of channels and of features."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(Residual(8, 0.0), Residual(8, 0.2))
        self.drop2d, self.dropout, self.fc = nn.Dropout2d(0.05), nn.Dropout(0.3), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop2d(self.blocks(torch.relu(self.bn(self.stem(x)))))
        return self.fc(self.dropout(x.mean((2, 3))))


class AlwaysDropout(nn.Module):
    """Drops in eval mode, too, so that repeated predictions spread as the model is unsure."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.2, True)


class MonteCarlo(nn.Module):
    """A small conv net with dropout before its classifier that is meant to stay on."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12)
        self.dropout, self.fc = AlwaysDropout(), nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.dropout(torch.relu(self.bn2(self.conv2(x))).mean((2, 3))))


ARCHITECTURES = [
    Architecture("dropout and stochastic depth", lambda: fitted(StochasticDepth(), images(), steps=60), images),
    Architecture(
        "Monte-Carlo dropout",
        lambda: fitted(MonteCarlo(), images()),
        images,
        designs=(
            Design(
                "BN302",
                "dropout",
                (("BN302", "*"), ("BN401", "*"), ("BN202", "dropout*"), ("BN203", "dropout*")),
                also=("BN401", "BN202", "BN203"),
            ),
        ),
    ),
]
