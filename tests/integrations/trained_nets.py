"""Tiny nets for real trainers: a frozen or free backbone with batch norm, and the ways to get it wrong."""

from __future__ import annotations

import torch
from torch import nn

ROWS = 24


def samples() -> torch.utils.data.TensorDataset:
    """Six features, two classes."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, 6, generator=generator)
    return torch.utils.data.TensorDataset(features, (features[:, 0] > 0).long())


class Backbone(nn.Module):
    """Two norms."""

    def __init__(self) -> None:
        super().__init__()
        self.linear1, self.bn1 = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.linear2, self.bn2 = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn2(self.linear2(torch.relu(self.bn1(self.linear1(x))))))


class Net(nn.Module):
    """A backbone and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))


class Frozen(Net):
    """The backbone's parameters are frozen, its norms are not."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone.requires_grad_(False)


class KeptFrozen(Frozen):
    """Frozen as it should be."""

    def train(self, mode: bool = True) -> KeptFrozen:
        super().train(mode)
        self.backbone.eval()
        return self


class EvalInForward(Frozen):
    """Frozen as it should be, in the last moment."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.backbone.eval()
        return super().forward(x)


class InAList(Net):
    """A norm that nothing registers."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = [nn.BatchNorm1d(8)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.extra[0](self.backbone(x)))


class Disobedient(Net):
    """One norm stays in training mode whatever it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone.bn2 = AlwaysTraining(8)


class AlwaysTraining(nn.BatchNorm1d):
    """Ignores eval()."""

    def train(self, mode: bool = True) -> AlwaysTraining:
        super().train(True)
        return self


def without_statistics(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What a filter of parameters leaves of a state dict."""
    return {key: tensor for key, tensor in state.items() if "running_" not in key and "num_batches" not in key}
