"""Nets whose state is partly where state_dict() does not look, and their factory: imported in fresh processes."""

from __future__ import annotations

import os
from multiprocessing import parent_process
from typing import Any

import torch
from torch import nn


class Sound(nn.Module):
    """All of it is in its state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.bn(self.conv(x)).mean((2, 3)))


class Lossy(Sound):
    """Most of what it adds is in no state_dict: an unsaved buffer, a module in a list, plain numbers. Loading it
    doubles a variance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3), persistent=False)
        self.extra = [nn.Linear(5, 5)]
        self.scale = 1.0
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.extra[0](super().forward(x - self.get_buffer("mean").view(1, -1, 1, 1))) * self.scale

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        state[f"{prefix}bn.running_var"] = 2 * state[f"{prefix}bn.running_var"]
        super()._load_from_state_dict(state, prefix, *others)


class Deadly(Sound):
    """Its factory ends every process but the first."""


class Broken(Sound):
    """Its factory raises in every process but the first."""


KINDS = {kind.__name__: kind for kind in (Sound, Lossy, Deadly, Broken)}


def trained(name: str) -> Sound:
    """The net after some steps of training."""
    torch.manual_seed(5)
    model = KINDS[name]()
    for _ in range(3):
        model(torch.randn(8, 3, 8, 8) + 1)
    if isinstance(model, Lossy):
        model.get_buffer("mean").fill_(0.5)
        model.scale, model.steps = 2.0, 3
    return model


def build(name: str = "Sound") -> Sound:
    """The factory."""
    if parent_process() is not None and name == "Deadly":
        os._exit(3)
    if parent_process() is not None and name == "Broken":
        raise ValueError("no weights here")
    return KINDS[name]()


def build_with_other_epsilon() -> Sound:
    """A factory that configures the norm otherwise."""
    model = Sound()
    model.bn.eps = 1e-2
    return model


def build_without_the_norm() -> nn.Module:
    """A factory of an older class."""
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
