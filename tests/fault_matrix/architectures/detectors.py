"""Detectors: a head shared across pyramid levels, a backbone whose own train() keeps its norms in eval mode."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def _stage(before: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, channels, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
    )


class Pyramid(nn.Module):
    """Three stages and their features in a common width, each level with a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _stage(3, 8, 2)
        self.stages = nn.ModuleList([_stage(8, 8, 1), _stage(8, 12, 2), _stage(12, 16, 2)])
        self.laterals = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            for channels in (8, 12, 16)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.stem(x)
        levels: list[torch.Tensor] = []
        for stage, lateral in zip(self.stages, self.laterals):  # noqa: B905 - torch.jit.script knows no `strict`
            x = stage(x)
            levels.append(lateral(x))
        return levels


class Head(nn.Module):
    """Shared by all levels, its norm too, which comes first: behind norms of their own the levels are alike.

    Behind a convolution they would not be: their channels are not equally correlated, and variances differ twofold.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bn, self.conv = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.scores = nn.Conv2d(8, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(torch.relu(self.conv(torch.relu(self.bn(x)))))


class Detector(nn.Module):
    """Scores of five classes at every place of every level, in one row per image."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = Pyramid(), Head()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.head(level).flatten(2) for level in self.backbone(x)], 2)


class FrozenBackbone(nn.Module):
    """Pretrained; its convolutions are fine-tuned further, its norms are not (mmdetection's `norm_eval`)."""

    def __init__(self) -> None:
        super().__init__()
        self.stage1, self.stage2 = _stage(3, 8, 1), _stage(8, 12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stage2(self.stage1(x))

    def train(self, mode: bool = True) -> FrozenBackbone:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self


class FineTuned(nn.Module):
    """The backbone behind a new head, whose norm trains."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone, self.neck, self.fc = backbone, _stage(12, 16, 2), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.neck(self.backbone(x)).mean((2, 3)))


def _fine_tuned() -> nn.Module:
    """The backbone learns by itself first, and its norms are frozen before the whole is trained."""
    pretrained = nn.Sequential(_stage(3, 8, 1), _stage(8, 12, 2))
    fitted(pretrained, images())
    backbone = FrozenBackbone()
    backbone.stage1, backbone.stage2 = pretrained[0], pretrained[1]
    for module in backbone.modules():
        if isinstance(module, _BatchNorm):
            module.requires_grad_(False)
    for conv in (backbone.stage1[0], backbone.stage2[0]):
        conv.requires_grad_(False)
    return fitted(FineTuned(backbone), images(), steps=40)


ARCHITECTURES = [
    Architecture("detector with a shared head", lambda: fitted(Detector(), images(), steps=40), images),
    Architecture(
        "detector with a norm_eval backbone",
        _fine_tuned,
        images,
        left_out={"scripted": "torch.jit.script drops the backbone's own train(): there its norms do train (BN501)"},
    ),
]
