"""The data, and the seeded training loops of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

FOLDER = Path(__file__).parent
SEED = 20
BATCH_SIZE = 32


class Digits(NamedTuple):
    """scikit-learn's bundled digits (Alpaydin & Kaynak 1998, UCI), split once."""

    inputs: torch.Tensor
    """float32 (1437, 1, 8, 8) in [0, 1]"""
    labels: torch.Tensor
    held_out_inputs: torch.Tensor
    """float32 (360, 1, 8, 8)"""
    held_out_labels: torch.Tensor


def load_digits() -> Digits:
    """The real digits, 80 % to train on."""
    from sklearn.datasets import load_digits as bundled

    data = bundled()
    order = np.random.default_rng(SEED).permutation(len(data.target))
    inputs = torch.from_numpy((data.images[order, None] / 16).astype(np.float32))
    labels = torch.from_numpy(data.target[order].astype(np.int64))
    split = len(order) * 4 // 5
    return Digits(inputs[:split], labels[:split], inputs[split:], labels[split:])


def batches(digits: Digits, count: int, seed: int = SEED) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """`count` shuffled batches, as many epochs as that takes; an incomplete last batch is dropped."""
    generator = torch.Generator().manual_seed(seed)
    while count > 0:
        order = torch.randperm(len(digits.inputs), generator=generator)
        for start in range(0, len(order) - BATCH_SIZE + 1, BATCH_SIZE):
            if count == 0:
                return
            picked = order[start : start + BATCH_SIZE]
            yield digits.inputs[picked], digits.labels[picked]
            count -= 1


def optimizer_of(net: nn.Module, rate: float = 0.1) -> torch.optim.SGD:
    """SGD with momentum over the parameters that train."""
    return torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=rate, momentum=0.9)


def train(
    net: nn.Module,
    digits: Digits,
    steps: int,
    optimizer: torch.optim.Optimizer | None = None,
    after_step: Callable[[], object] | None = None,
) -> None:
    """Train in place, in whatever mode the module's layers are."""
    optimizer = optimizer or optimizer_of(net)
    dtype = next(net.parameters()).dtype
    torch.manual_seed(SEED)  # dropout
    for inputs, labels in batches(digits, steps):
        optimizer.zero_grad()
        cross_entropy(net(inputs.to(dtype)), labels).backward()
        optimizer.step()
        if after_step is not None:
            after_step()


@torch.no_grad()
def accuracy(net: nn.Module, digits: Digits) -> float:
    """Share of the held-out digits that the module, in its present mode, gets right."""
    predicted = net(digits.held_out_inputs).argmax(1)
    return float((predicted == digits.held_out_labels).float().mean())
