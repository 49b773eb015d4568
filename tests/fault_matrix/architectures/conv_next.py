"""ConvNeXts: LayerNorm over the channels, layer scale, no batch norm; and a hybrid with a batch norm in its stem."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn


class LayerNorm2d(nn.LayerNorm):
    """Over the channels of (N, C, H, W)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class SpelledLayerNorm(nn.Module):
    """The same in plain arithmetic, as the first ConvNeXt had it: only a weight and a bias, by its class no norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(1, keepdim=True)
        var = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(var + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Block(nn.Module):
    """Depthwise convolution, norm, two pointwise layers, scaled by a small learned vector and added."""

    def __init__(self, channels: int, norm: nn.Module) -> None:
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(channels, channels, 5, padding=2, groups=channels), norm
        self.pwconv1, self.pwconv2 = nn.Conv2d(channels, 2 * channels, 1), nn.Conv2d(2 * channels, channels, 1)
        self.gamma = nn.Parameter(0.1 * torch.ones(channels))  # 1e-6 when it is born, about this when it is trained

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pwconv2(nn.functional.gelu(self.pwconv1(self.norm(self.dwconv(x)))))
        return x + self.gamma[:, None, None] * y


class ConvNeXt(nn.Module):
    """A stem, two blocks, a downsampling, a block, and a norm before the classifier."""

    def __init__(self, stem_norm: nn.Module) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 8, 2, stride=2), stem_norm
        self.stage1 = nn.Sequential(Block(8, SpelledLayerNorm(8)), Block(8, LayerNorm2d(8, eps=1e-6)))
        self.downsample = nn.Sequential(LayerNorm2d(8, eps=1e-6), nn.Conv2d(8, 12, 2, stride=2))
        self.stage2 = Block(12, LayerNorm2d(12, eps=1e-6))
        self.norm, self.head = nn.LayerNorm(12, eps=1e-6), nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stage1(self.stem_norm(self.stem(x)))
        return self.head(self.norm(self.stage2(self.downsample(x)).mean((2, 3))))


ARCHITECTURES = [
    Architecture("ConvNeXt", lambda: fitted(ConvNeXt(SpelledLayerNorm(8)), images()), images),
    Architecture("ConvNeXt with a batch-norm stem", lambda: fitted(ConvNeXt(nn.BatchNorm2d(8)), images()), images),
]
