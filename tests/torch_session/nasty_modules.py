"""A model whose forward disturbs whatever a forward can disturb."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import nn


class Note:
    """An object of a user's class."""

    def __init__(self) -> None:
        self.text = "before"
        self.tensor = torch.zeros(2)


class Nasty(nn.Module):
    """(N, 4) → (N, 3), after every misdeed in `misdeeds`."""

    def __init__(self, misdeeds: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.misdeeds = misdeeds
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 3)
        self.register_buffer("kept", torch.tensor([1.0, float("nan"), -0.0]))
        self.register_buffer("private", torch.arange(3), persistent=False)
        self.hidden = [nn.BatchNorm1d(4)]
        self.note = Note()
        self.log: list[object] = [1, "two"]
        self.cache: dict[object, object] = {"a": torch.ones(1)}
        self.known = {"x"}
        self.array = np.arange(4.0)
        self.plain = torch.zeros(3)
        self.drawn = np.random.default_rng(0)
        self.count = 1000
        self.linear.weight.grad = torch.ones(3, 4)
        self.norm.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(self.norm(x))
        for name in self.misdeeds:
            MISDEEDS[name](self, x)
        return y


def _raise(model: Nasty, x: torch.Tensor) -> None:
    raise ValueError("no")


def _interrupt(model: Nasty, x: torch.Tensor) -> None:
    raise KeyboardInterrupt


def _replace_parameter(model: Nasty, x: torch.Tensor) -> None:
    model.linear.bias = nn.Parameter(torch.ones(3))


def _negate_zero(model: Nasty, x: torch.Tensor) -> None:
    model.kept.data[2] = 0.0


def _draw(model: Nasty, x: torch.Tensor) -> None:
    random.random(), np.random.rand(), torch.rand(1), model.drawn.random()


def _autocast(model: Nasty, x: torch.Tensor) -> None:
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)


MISDEEDS: dict[str, Callable[[Nasty, torch.Tensor], object]] = {
    "adds to a buffer in place": lambda m, x: m.kept.add_(1),
    "writes -0 over 0": _negate_zero,
    "writes .data": lambda m, x: m.linear.weight.data.mul_(2),
    "writes .numpy()": lambda m, x: m.linear.bias.detach().numpy().fill(7),
    "sets .data": lambda m, x: setattr(m.linear.weight, "data", torch.zeros(3, 4)),
    "sets .data of another dtype": lambda m, x: setattr(m.linear.bias, "data", torch.zeros(3).double()),
    "replaces a buffer": lambda m, x: setattr(m, "private", m.private + 1),
    "replaces a parameter": _replace_parameter,
    "adds a buffer": lambda m, x: m.register_buffer("new", torch.zeros(1)),
    "removes a buffer": lambda m, x: m._buffers.pop("private"),
    "adds an attribute": lambda m, x: setattr(m, "fresh", x),
    "removes an attribute": lambda m, x: delattr(m, "plain"),
    "adds a module": lambda m, x: setattr(m, "extra", nn.Linear(1, 1)),
    "appends to a list": lambda m, x: m.log.append(x),
    "reverses a list": lambda m, x: m.log.reverse(),
    "fills a dict": lambda m, x: m.cache.update(b=x),
    "writes a tensor in a dict": lambda m, x: m.cache["a"].add_(1),
    "fills a set": lambda m, x: m.known.add("y"),
    "writes an array": lambda m, x: m.array.fill(5),
    "counts": lambda m, x: setattr(m, "count", m.count + 1),
    "writes into an object": lambda m, x: (setattr(m.note, "text", "after"), m.note.tensor.add_(1)),
    "freezes": lambda m, x: m.linear.requires_grad_(False),
    "unfreezes": lambda m, x: m.norm.requires_grad_(True),
    "drops a gradient": lambda m, x: setattr(m.linear.weight, "grad", None),
    "writes a gradient": lambda m, x: m.linear.weight.grad.zero_(),
    "trains": lambda m, x: m.train(not m.training),
    "runs what is hidden": lambda m, x: m.hidden[0](x),
    "hides more": lambda m, x: m.hidden.append(nn.BatchNorm1d(4)),
    "hooks": lambda m, x: m.linear.register_forward_hook(lambda *a: None),
    "draws": _draw,
    "seeds": lambda m, x: (torch.manual_seed(1), random.seed(1), np.random.seed(1)),
    "changes the default dtype": lambda m, x: torch.set_default_dtype(torch.float64),
    "switches gradients on": lambda m, x: torch.set_grad_enabled(True),
    "sets threads": lambda m, x: torch.set_num_threads(1 + torch.get_num_threads() % 2),
    "autocasts": _autocast,
    "wants determinism": lambda m, x: torch.use_deterministic_algorithms(True),
    "looks for anomalies": lambda m, x: torch.autograd.set_detect_anomaly(True),
    "leaves the fast path": lambda m, x: torch.backends.mha.set_fastpath_enabled(False),
    "changes the default device": lambda m, x: torch.set_default_device("meta"),
    "ignores errors of NumPy": lambda m, x: np.seterr(all="ignore"),
    "goes elsewhere": lambda m, x: os.chdir(os.sep),
    "recurses deeper": lambda m, x: sys.setrecursionlimit(5000),
    "imports from elsewhere": lambda m, x: sys.path.append("elsewhere"),
    "filters warnings": lambda m, x: warnings.simplefilter("error"),
    "raises": _raise,
    "is interrupted": _interrupt,
}
