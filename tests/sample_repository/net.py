"""The model of this repository, and batches as it gets them in production."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import torch
from torch import nn


def build() -> nn.Module:
    """A net with three batch norms: rows of 6 numbers become scores of 3 classes."""
    stem = OrderedDict(fc=nn.Linear(6, 16), norm=nn.BatchNorm1d(16), relu=nn.ReLU())
    body = OrderedDict(fc=nn.Linear(16, 16), norm=nn.BatchNorm1d(16), relu=nn.ReLU())
    head = OrderedDict(norm=nn.BatchNorm1d(16), fc=nn.Linear(16, 3))
    parts = OrderedDict(stem=nn.Sequential(stem), body=nn.Sequential(body), head=nn.Sequential(head))
    return nn.Sequential(parts)


def batches() -> Iterator[torch.Tensor]:
    """Eight batches of 64 rows, the same ones each time."""
    drawn = torch.Generator().manual_seed(7)
    for _ in range(8):
        yield torch.randn(64, 6, generator=drawn) * 2 + 1
