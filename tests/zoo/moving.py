"""Makes a fresh net look trained: affine parameters that moved, statistics of real forwards in training mode.

A few batches at PyTorch's momentum of 0.1 would leave 73 % of the initial 0 and 1 in the statistics, which BN105
rightly reports. So the batches are averaged with `momentum=None`, as `torch.optim.swa_utils.update_bn` does it, which
leaves nothing of the start; the momentum is put back, and every counter is multiplied to what training of `EPOCHS`
times these batches would have counted. Counters keep their ratios: a head that is used five times per forward counts
five times as fast. Nothing else is made up: means and variances are those that the net computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from zoo.inputs import batch, shrink, sizes

BATCHES = 3
EPOCHS = 2000
AFFINE_STEP = 0.1
"""Standard deviation of what training is taken to have added to weights and biases of norms."""


class NoForwardError(Exception):
    """No size that was tried gave finite statistics; says what the largest one raised."""


def tracking(net: nn.Module) -> list[tuple[str, _BatchNorm]]:
    """Batch norms (and instance norms) that update statistics and count."""
    return [
        (name, module)
        for name, module in net.named_modules()
        if isinstance(module, (_BatchNorm, nn.modules.instancenorm._InstanceNorm))
        and isinstance(module.num_batches_tracked, torch.Tensor)
        and isinstance(module.running_var, torch.Tensor)
    ]


def affine_norms(net: nn.Module, of_torch: bool = False) -> list[str]:
    """Names of the norm modules with a weight and a bias, 1-D both; of classes of torch's (and their heirs) alone?"""
    named = [(name, module) for name, module in net.named_modules() if "norm" in type(module).__name__.lower()]
    return [name for name, module in named if _pair(module) and (not of_torch or isinstance(module, _OF_TORCH))]


_OF_TORCH = (_BatchNorm, nn.LayerNorm, nn.GroupNorm)
"""Norms that are one operator."""


def _pair(module: nn.Module) -> bool:
    pair = (module._parameters.get("weight"), module._parameters.get("bias"))
    return all(tensor is not None and tensor.dim() == 1 for tensor in pair)


def move_affine(net: nn.Module, generator: torch.Generator) -> None:
    """Add small seeded noise to weight and bias of every norm module, as training does."""
    for module in net.modules():
        if "norm" not in type(module).__name__.lower():
            continue
        for name in ("weight", "bias"):
            tensor = module._parameters.get(name)
            if tensor is not None and tensor.dim() == 1:
                tensor.data.add_(AFFINE_STEP * torch.randn(tensor.shape, generator=generator))


def move(net: nn.Module, kind: str, seed: int, samples: int = 2, batches: int = BATCHES, least: int = 0) -> int:
    """Move the affine parameters, then the statistics, at the smallest side that works; 0: there is nothing to move.

    Returns the side. Raises NoForwardError when no side works.
    """
    generator = torch.Generator().manual_seed(seed)
    move_affine(net, generator)
    norms = [norm for _, norm in tracking(net)]
    if not norms:
        return 0
    why = ""
    for size in sizes(net, kind):
        if size < least:
            continue
        try:
            _forwards(net, kind, size, norms, samples, batches, generator)
        except Exception as error:  # whatever a net raises at a size that it is not made for
            why = f"{type(error).__name__}: {error}"
            continue
        ran = [norm for norm in norms if int(norm.num_batches_tracked or 0)]
        if ran and all(_finite(norm) for norm in ran):
            return size
        why = "statistics that are not finite" if ran else "no batch norm ran"
    raise NoForwardError(" ".join(why.split())[:300])


def _finite(norm: _BatchNorm) -> bool:
    mean, var = norm.running_mean, norm.running_var
    assert mean is not None and var is not None
    return bool(mean.isfinite().all() and var.isfinite().all())


def _forwards(
    net: nn.Module,
    kind: str,
    size: int,
    norms: list[_BatchNorm],
    samples: int,
    batches: int,
    generator: torch.Generator,
) -> None:
    modes = {module: module.training for module in net.modules()}
    momenta = [norm.momentum for norm in norms]
    try:
        _training(net, kind, size, norms)
        with torch.no_grad():
            for arguments in _batches(net, kind, size, samples, batches, generator):
                net(*arguments)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, mode in modes.items():
            module.training = mode
    for norm in norms:
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked.mul_(EPOCHS)


def _training(net: nn.Module, kind: str, size: int, norms: list[_BatchNorm]) -> None:
    """Training mode; of a detector, which wants targets in it, the norms alone."""
    if kind == "detection":
        shrink(net, size)
        net.eval()
    else:
        net.train()
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None


def _batches(
    net: nn.Module, kind: str, size: int, samples: int, batches: int, generator: torch.Generator
) -> Iterator[tuple[Any, ...]]:
    for _ in range(batches):
        yield batch(net, kind, size, samples, generator)
