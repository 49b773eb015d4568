"""What production may have done to a digit net, written in plain PyTorch, and its scores as they would be logged."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bnaudit.diagnosis import Observed, ScoreKind
from sample_models import digits

FOLDER = Path(digits.__file__).parent
MODEL = FOLDER / "healthy" / "state_dict.pt"
ROWS = 24
Array = np.ndarray[Any, Any]
Change = Callable[[nn.Module], object]


@cache
def inputs(rows: int = ROWS) -> Array:
    """(rows, 1, 8, 8) of the held-out digits."""
    return np.load(FOLDER / "digits.npz")["inputs"][:rows]


@cache
def _net() -> nn.Module:
    net = digits.build()
    net.load_state_dict(torch.load(MODEL, weights_only=True))
    return net.eval()


def net() -> nn.Module:
    """The sample net in eval, trained."""
    return copy.deepcopy(_net())


@cache
def coloured_inputs(rows: int = ROWS, layout: str = "plain") -> Array:
    """(rows, 3, 8, 8): digits whose three channels are different crops and gains, as colours would be."""
    grey = inputs(rows)
    channels = [grey, np.roll(grey, 1, axis=2) * 0.8 + 0.1, np.roll(grey, 1, axis=3) * 0.6 + 0.05]
    plain = np.concatenate(channels, axis=1).astype(np.float32)
    if layout == "plain":
        return plain
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    shape = (1, 3, 1, 1)
    return ((plain - np.reshape(mean, shape)) / np.reshape(deviation, shape)).astype(np.float32)


class Coloured(digits.DigitNet):
    """The digit net for three channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)


@cache
def _coloured() -> nn.Module:
    torch.manual_seed(3)
    made = Coloured()
    x = torch.from_numpy(coloured_inputs(120))
    y = torch.from_numpy(np.load(FOLDER / "digits.npz")["labels"][:120])
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
    for _ in range(25):
        optimizer.zero_grad()
        nn.functional.cross_entropy(made.train()(x), y).backward()
        optimizer.step()
    return made.eval()


def coloured() -> nn.Module:
    """A trained net for `coloured_inputs`."""
    return copy.deepcopy(_coloured())


def norms(model: nn.Module) -> dict[str, nn.Module]:
    """Batch norms by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}


def training(*names: str) -> Change:
    def change(model: nn.Module) -> None:
        for name, module in norms(model).items():
            if not names or name in names:
                module.train()

    return change


def lost(*names: str) -> Change:
    def change(model: nn.Module) -> None:
        for name, module in norms(model).items():
            if not names or name in names:
                module.reset_running_stats()

    return change


def epsilon(value: float) -> Change:
    def change(model: nn.Module) -> None:
        for module in norms(model).values():
            module.eps = value

    return change


def filled(field: str, value: float, *names: str) -> Change:
    def change(model: nn.Module) -> None:
        with torch.no_grad():
            for name, module in norms(model).items():
                if not names or name in names:
                    getattr(module, field).fill_(value)

    return change


def copied(to: str, source: str) -> Change:
    def change(model: nn.Module) -> None:
        model.get_submodule(to).load_state_dict(model.get_submodule(source).state_dict())

    return change


def exchanged(one: str, other: str) -> Change:
    def change(model: nn.Module) -> None:
        state = copy.deepcopy(model.get_submodule(one).state_dict())
        model.get_submodule(one).load_state_dict(model.get_submodule(other).state_dict())
        model.get_submodule(other).load_state_dict(state)

    return change


def both(*changes: Change) -> Change:
    def change(model: nn.Module) -> None:
        for each in changes:
            each(model)

    return change


@torch.no_grad()
def scores(model: nn.Module, given: Array, change: Change = lambda model: None, alone: bool = False) -> Array:
    """(rows, classes): logits of the changed model, all rows in one batch, or each in its own."""
    changed = copy.deepcopy(model)
    answer = change(changed)
    model = answer if isinstance(answer, nn.Module) else changed
    dtype = next(model.parameters()).dtype
    whole = torch.from_numpy(np.ascontiguousarray(given)).to(dtype)
    kept = copy.deepcopy(model.state_dict())
    made = []
    for batch in whole.split(1 if alone else len(whole)):
        made.append(model(batch).float())
        model.load_state_dict(kept)
    return torch.cat(made).double().numpy()


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


NOISES = ("float32", "rounded", "noisy", "probabilities", "labels")
"""In which form production's scores are logged."""


def logged(logits: Array, noise: str, rows: Iterable[int] | None = None, seed: int = 0, **more: Any) -> Observed:
    """The scores as production would log them."""
    generator = np.random.default_rng(seed)
    scale = float(np.sqrt(np.mean(logits**2)))
    values, kind, step = logits, ScoreKind.LOGITS, None
    if noise == "float32":
        values = logits + 3e-7 * scale * generator.standard_normal(logits.shape)
    elif noise == "rounded":
        values, step = np.round(logits, 3), 1e-3
    elif noise == "noisy":
        values = logits + 1e-3 * generator.standard_normal(logits.shape)
    elif noise == "probabilities":
        values, kind, step = np.round(softmax(logits), 3), ScoreKind.PROBABILITIES, 1e-3
    elif noise == "labels":
        values, kind = logits.argmax(axis=1), ScoreKind.LABELS
    which = np.arange(len(logits)) if rows is None else np.asarray(list(rows))
    return Observed(values=values, kind=kind, rows=which, step=step, source=f"planted, {noise}", **more)
