"""Nets that look at the whole batch by design: attention across samples, and a prototype net's own episode."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture, Design
from torch import nn


class BatchAttention(nn.Module):
    """Every sample attends to the others of its batch (as Non-Parametric Transformers and BatchFormer do)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, 1)
        scores = (q @ k.transpose(0, 1)) * (q.shape[1] ** -0.5)
        return x + self.proj(scores.softmax(1) @ v)


class Prototypes(nn.Module):
    """Centres features on the batch, as few-shot learners do before they compare with prototypes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(10, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x - x.mean(0, keepdim=True)
        return -(x.unsqueeze(1) - self.prototypes).square().sum(2)


class Transductive(nn.Module):
    """Two convolutions with batch norm, then what looks at the batch."""

    def __init__(self, batchwise: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12)
        self.batchwise, self.head = batchwise, head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x))).mean((2, 3))
        return self.head(self.batchwise(x))


ARCHITECTURES = [
    Architecture(
        "transductive net",
        lambda: fitted(Transductive(BatchAttention(12), nn.Linear(12, 10)), images()),
        images,
        designs=(Design("BN301", "batchwise", (("BN301", "batchwise*"), ("BN301", ""))),),
    ),
    Architecture(
        "few-shot net",
        lambda: fitted(Transductive(Prototypes(12), nn.Identity()), images()),
        images,
        designs=(Design("BN301", "batchwise", (("BN301", "batchwise*"), ("BN301", ""))),),
    ),
]
