"""Seeded random inputs of the smallest size that a net takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = (64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
LARGEST = 320
"""Tried at least up to here: torchvision's nets do not say that an Inception takes 299."""
FRAMES = 16
"""Of a video; torchvision's MViT and S3D take 16 and no fewer."""


def native(net: nn.Module) -> tuple[int, int]:
    """(channels, side) that the net is made for: 3 and 224 where it does not say."""
    config = getattr(net, "pretrained_cfg", None) or {}
    channels, *sides = config.get("input_size") or (3, 224, 224)
    return channels, max(sides)


def sizes(net: nn.Module, kind: str) -> list[int]:
    """Sides to try, smallest first; the native one is always among them, at its place."""
    _, own = native(net)
    least = {"flow": 128}.get(kind, 64)
    return sorted({size for size in (*SIZES, own) if least <= size <= max(own, LARGEST)})


def batch(net: nn.Module, kind: str, size: int, samples: int, generator: torch.Generator) -> tuple[Any, ...]:
    """Positional arguments of one forward: float32 noise, N(0, 1) (detectors: within [0, 1], as they normalize it)."""
    channels, _ = native(net)
    if kind == "detection":
        return ([torch.rand((3, size, size), generator=generator) for _ in range(samples)],)
    if kind == "video":
        return (torch.randn((samples, 3, FRAMES, size, size), generator=generator),)
    image = torch.randn((samples, channels, size, size), generator=generator)
    return (image, torch.randn(image.shape, generator=generator)) if kind == "flow" else (image,)


def shrink(net: nn.Module, size: int) -> None:
    """Let a torchvision detector keep images at this side, and keep all boxes, so that its heads have work.

    With random weights no box reaches the usual score, and a batch norm in a head would see nothing.
    """
    transform: Any = getattr(net, "transform", None)
    if transform is not None and getattr(transform, "fixed_size", None) is None:
        transform.min_size, transform.max_size = (size,), size
    heads: Any = getattr(net, "roi_heads", None)
    if heads is not None:
        heads.score_thresh = 0.0
