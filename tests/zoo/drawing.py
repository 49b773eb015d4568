"""Draws large tensors faster: a block of numbers, repeated. Most of the time of the zoo was random numbers.

Norm tensors are far smaller than the block and are drawn as the library says. The block's length is prime, so that
repeated numbers do not make repeated filters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm.layers.weight_init
import torch

BLOCK = 131_071


def draw_in_blocks() -> None:
    """From here on in this process: uniform, normal and truncated normal draws of more than BLOCK numbers."""
    for owner, name in (
        (torch.Tensor, "uniform_"),
        (torch.Tensor, "normal_"),
        (torch.nn.init, "_no_grad_trunc_normal_"),
        (timm.layers.weight_init, "_trunc_normal_"),
    ):
        setattr(owner, name, _in_blocks(getattr(owner, name)))


def _in_blocks(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def drawn(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        if tensor.numel() <= BLOCK or tensor.is_meta or not tensor.is_contiguous():
            return draw(tensor, *arguments, **options)
        with torch.no_grad():
            block = tensor.new_empty(BLOCK)
            draw(block, *arguments, **options)
            flat = tensor.detach().view(-1)
            whole = flat.numel() // BLOCK * BLOCK
            flat[:whole].view(-1, BLOCK).copy_(block)
            flat[whole:].copy_(block[: flat.numel() - whole])
        return tensor

    return drawn
