"""Networks for the digits that look suspicious when they run, and are not.

Input: float32 (N, 1, 8, 8) in [0, 1]; output: logits (N, 10). Factories return a fresh module in training mode.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from sample_models.digit_defects import ReadAlongBatch
from sample_models.small_digits import FEATURES, SmallNet


class FrozenBackboneNet(SmallNet):
    """Frozen but for its classifier; its own train() keeps the norms in eval, as mmdetection's norm_eval does."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)
        self.fc.requires_grad_(True)

    def train(self, mode: bool = True) -> FrozenBackboneNet:
        super().train(mode)
        self.bn1.eval()
        self.bn2.eval()
        return self


class StandardizedConv2d(nn.Conv2d):
    """Its weight is standardized with the operator of batch norm in training form, as timm's StdConv2d does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(rows, None, None, training=True, momentum=0.0, eps=1e-5).reshape_as(self.weight)
        return self._conv_forward(x, weight, self.bias)


class Rotary(nn.Module):
    """Turns pairs of features by an angle that grows with the position; the tables are made in the first forward."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("cos", torch.empty(0, features // 2))
        self.register_buffer("sin", torch.empty(0, features // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.cos.shape[0] != x.shape[1]:
            speeds = 100.0 ** -(torch.arange(self.features // 2, device=x.device) / (self.features // 2))
            angles = torch.arange(x.shape[1], device=x.device).unsqueeze(1) * speeds
            self.cos, self.sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)


class RotaryTransformer(nn.Module):
    """A transformer over the eight rows of an image: layer norms, rotary positions, dropout."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.rotary = Rotary(width)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.1, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.rotary(self.embed(x.squeeze(1)))
        return self.fc(self.norm(self.encoder(tokens)).mean(1))


class Experts(nn.Module):
    """Every sample goes to the expert that its gate likes best, together with those of its neighbours that do too."""

    def __init__(self, features: int = FEATURES, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(features, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, features)) for _ in range(count)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows]))
        return x + weight.unsqueeze(1) * out


class MonteCarloDropout(nn.Dropout):
    """Drops in evaluation, too: the spread of its answers is meant."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.p, training=True)


class SharedHeadNet(SmallNet):
    """Its second stage runs on the image and on its mirror, so that one norm sees two batches for one of the stem's."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(torch.relu(self.conv1(x)))
        fine = self.bn2(torch.relu(self.conv2(x)))
        mirrored = self.bn2(torch.relu(self.conv2(x.flip(3))))
        return self.pool(fine + mirrored).flatten(1)


def build_frozen_backbone() -> FrozenBackboneNet:
    """Frozen, with norms that stay in eval."""
    return FrozenBackboneNet()


def build_standardized() -> SmallNet:
    """Weight standardization in the second convolution."""
    net = SmallNet()
    net.conv2 = StandardizedConv2d(8, 8, 3, stride=2, padding=1)
    return net


def build_rotary() -> RotaryTransformer:
    """Layer norms and a table of positions."""
    return RotaryTransformer()


def build_experts() -> SmallNet:
    """A mixture of experts behind the norms."""
    return SmallNet(middle=Experts())


def build_monte_carlo() -> SmallNet:
    """Dropout that stays on by design, in `middle`."""
    return SmallNet(middle=MonteCarloDropout(0.2))


def build_shared_head() -> SharedHeadNet:
    """One norm on two like populations."""
    return SharedHeadNet()


def build_reading() -> SmallNet:
    """An LSTM with its batch axis where it belongs."""
    return SmallNet(middle=ReadAlongBatch(batch_first=True))


def build_instance_norm() -> SmallNet:
    """Instance norm with affine and tracking."""
    return SmallNet(lambda channels: nn.InstanceNorm2d(channels, affine=True, track_running_stats=True))


def build_small_group_norm() -> SmallNet:
    """Group norm: no batch, no buffers, no modes."""
    return SmallNet(lambda channels: nn.GroupNorm(4, channels))
