"""One small net for digits, and the same with one thing changed: samples for comparing two."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from sample_models.digits import DigitNet
from sample_models.small_digits import SmallNet, build_small
from sample_models.training import Digits, batches, optimizer_of, train
from sample_models.write_healthy import Trained, Writer, export_onnx
from sample_models.write_running_defects import RATE, graph_of, state_of, trained_small

SUMMED = 44
"""Batches of one epoch."""
LAST = 10
"""Batches that statistics are behind."""
AVERAGED = 220
"""The last steps, whose weights are averaged."""


def stray_forward(trained: Trained, path: Path) -> None:
    net = trained_small(build_small, trained).train()
    with torch.no_grad():
        net(trained.example)
    torch.save(net.state_dict(), path)


def buffers_not_averaged(trained: Trained, path: Path) -> None:
    """The same run as `compare/trained.pt`, its weights averaged; the average has the last step's buffers."""
    net = build_small()
    optimizer = optimizer_of(net, RATE)
    average = AveragedModel(net)
    steps = iter(range(trained.steps))

    def after_step() -> None:
        if next(steps) >= trained.steps - AVERAGED:
            average.update_parameters(net)

    train(net, trained.digits, trained.steps, optimizer, after_step)
    torch.save(average.module.state_dict(), path)


def renamed(trained: Trained, path: Path) -> None:
    state = trained_small(build_small, trained).state_dict()
    torch.save({f"backbone.{name}": value for name, value in state.items()}, path)


def epsilon_changed(trained: Trained, path: Path) -> None:
    state = trained_small(build_small, trained).state_dict()
    net = SmallNet(partial(nn.BatchNorm2d, eps=1e-3))
    net.load_state_dict(state)
    export_onnx(net.eval(), trained.example, path, do_constant_folding=False)


def sums_not_divided(trained: Trained, path: Path) -> None:
    net = trained_small(build_small, trained)
    state = net.state_dict()
    for name, value in summed_statistics(net, trained.digits).items():
        state[name] = value
    torch.save(state, path)


@torch.no_grad()
def summed_statistics(net: nn.Module, digits: Digits) -> dict[str, torch.Tensor]:
    """Mean and unbiased variance of each norm's input, summed over an epoch of batches."""
    sums: dict[str, torch.Tensor] = {}

    def add(name: str, inputs: tuple[torch.Tensor, ...]) -> None:
        values = inputs[0].transpose(0, 1).flatten(1)
        for leaf, value in (("running_mean", values.mean(1)), ("running_var", values.var(1))):
            sums[f"{name}.{leaf}"] = sums.get(f"{name}.{leaf}", torch.zeros_like(value)) + value

    norms = [(name, module) for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)]
    hooks = [module.register_forward_pre_hook(lambda _, inputs, name=name: add(name, inputs)) for name, module in norms]
    for inputs, _ in batches(digits, SUMMED):
        net(inputs)
    for hook in hooks:
        hook.remove()
    return sums


def finetuned(trained: Trained, path: Path) -> None:
    net = trained_small(build_small, trained).train()
    train(net, trained.digits, SUMMED, optimizer_of(net, RATE))
    torch.save(net.state_dict(), path)


def float16(trained: Trained, path: Path) -> None:
    torch.save(trained_small(build_small, trained).half().state_dict(), path)


@torch.no_grad()
def folded_with_older_statistics(trained: Trained, path: Path) -> None:
    """The network of the healthy samples as its statistics were before ten more batches, folded by the exporter."""
    net = DigitNet()
    net.load_state_dict(trained.net.state_dict())
    net.train()
    for inputs, _ in batches(trained.digits, LAST):
        net(inputs)
    export_onnx(net.eval(), trained.example, path)


WRITERS: dict[str, Writer] = {
    "compare/trained.pt": state_of(build_small),
    "compare/trained.onnx": graph_of(build_small),
    "compare/stray_forward.pt": stray_forward,
    "compare/buffers_not_averaged.pt": buffers_not_averaged,
    "compare/renamed.pt": renamed,
    "compare/epsilon_changed.onnx": epsilon_changed,
    "compare/folded_with_older_statistics.onnx": folded_with_older_statistics,
    "compare/sums_not_divided.pt": sums_not_divided,
    "compare/finetuned.pt": finetuned,
    "compare/float16.pt": float16,
}
