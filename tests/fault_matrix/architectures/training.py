"""What the architectures are trained on and how: seeded data with classes, some steps of SGD, statistics that fit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fault_matrix.values import Inputs
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

SAMPLES = 64


def images(channels: int = 3, size: int = 12, draw: int | None = None, count: int = SAMPLES) -> Inputs:
    """64 images of ten patterns each scaled and noisy, (64, channels, size, size); others of them for every `draw`."""
    generator = torch.Generator().manual_seed(7)
    patterns = torch.randn(10, channels, size, size, generator=generator)
    if draw is not None:
        generator.manual_seed(1000 + draw)
    labels = torch.arange(count) % 10
    scale = torch.rand(count, 1, 1, 1, generator=generator) + 0.5
    noise = torch.randn(count, channels, size, size, generator=generator)
    return (patterns[labels] * scale + 0.5 * noise + 0.3,)


def fitted(
    net: nn.Module, inputs: Inputs, steps: int = 80, loss: Callable[[nn.Module, Inputs], torch.Tensor] | None = None
) -> nn.Module:
    """The net after some steps of SGD, its running statistics then averaged over the data: as a mature file has them.

    Each batch norm's statistics become the mean over four training-mode batches of 16 of the weights that are in the
    file, and its counter says that it was trained for long.
    """
    optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.02, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    net.train()
    for _ in range(steps):
        rows = torch.randperm(SAMPLES, generator=generator)[:16]
        optimizer.zero_grad()
        (loss or mean_square)(net, tuple(value[rows] for value in inputs)).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    optimizer.zero_grad()
    average_statistics(net, inputs)
    return net.eval()


def mean_square(net: nn.Module, inputs: Inputs) -> torch.Tensor:
    """A loss for nets without labels: the outputs are pulled towards targets made of the inputs."""
    output = net(*inputs)
    outputs = output if isinstance(output, torch.Tensor) else torch.cat([each.flatten(1) for each in output], 1)
    wanted = torch.linspace(-1, 1, outputs[0].numel()).reshape(outputs[0].shape)
    return (
        (outputs - wanted * inputs[0].float().flatten(1).std(1).reshape(-1, *[1] * (outputs.ndim - 1))).square().mean()
    )


def average_statistics(net: nn.Module, inputs: Inputs) -> None:
    """Statistics that are the exact mean over the batches, as torch.optim.swa_utils.update_bn makes them."""
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    before = [(norm, norm.momentum, norm.num_batches_tracked.clone()) for norm in norms if norm.training]
    for norm, _, _ in before:
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for start in range(0, SAMPLES, 16):
            net(*(value[start : start + 16] for value in inputs))
    for norm, momentum, counter in before:
        norm.momentum = momentum
        norm.num_batches_tracked.copy_(counter)
