"""Networks for the digits whose defect shows only when they run: one class, one defect.

Input: float32 (N, 1, 8, 8) in [0, 1]; output: logits (N, 10). Factories return a fresh module in training mode.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from sample_models.small_digits import FEATURES, SmallNet


class FunctionalNet(SmallNet):
    """Calls batch norm by hand with the tensors of `bn2`, and always with training=True."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(torch.relu(self.conv1(x)))
        norm = self.bn2
        x = torch.relu(self.conv2(x))
        x = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, training=True)
        return self.pool(x).flatten(1)


class HandMadeNorm(nn.Module):
    """A norm of one's own that keeps no statistics and knows no modes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels))
        self.offset = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, self.gain, self.offset, training=True)


class NormInForwardNet(SmallNet):
    """Makes its second norm anew in every forward: always in training mode, never in eval()'s reach."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(torch.relu(self.conv1(x)))
        x = nn.BatchNorm2d(x.shape[1])(torch.relu(self.conv2(x)))
        return self.pool(x).flatten(1)


class StubbornNorm(nn.BatchNorm2d):
    """Its train() ignores what it is told, so that eval() leaves it in training mode."""

    def train(self, mode: bool = True) -> StubbornNorm:
        return super().train(True)


class AlwaysDropping(nn.Module):
    """A classifier whose dropout was called without its training flag."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(F.dropout(x, 0.2))


class NoisyNet(SmallNet):
    """Adds the noise of its training in evaluation, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(x + 0.1 * torch.randn_like(x)))


class SqueezingNet(SmallNet):
    """One logit per image; squeeze() without an axis takes the batch axis too when the batch is one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(x)).squeeze()


class CarryingNet(SmallNet):
    """Remembers the last batch in a plain attribute and adds it to the next answer."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.zeros(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        answer = self.fc(x + self.memory)
        self.memory = x.detach().mean(0)
        return answer


class CenteringNet(SmallNet):
    """Moves a registered running centre in every forward, also in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        answer = self.fc(x - self.centre)
        self.centre.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return answer


class MinibatchSpread(nn.Module):
    """Appends the batch's mean standard deviation to every sample, as discriminators do against mode collapse."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spread = (x.var(0, unbiased=False) + 1e-8).sqrt().mean()
        return torch.cat([x, spread * torch.ones_like(x[:, :1])], 1)


class BatchSoftmax(nn.Module):
    """Weights by a softmax over the wrong axis: the batch instead of the features."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.score = nn.Linear(inputs, inputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x * self.score(x).softmax(0)


class BatchAttention(nn.Module):
    """Samples attend to each other: (N, C) was taken for one sequence of N tokens."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(inputs, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.attention(x, x, x, need_weights=False)[0]


class RunningMean(nn.Module):
    """The mean of all rows up to this one: a cumulative sum along the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0) / torch.arange(1, x.shape[0] + 1, device=x.device).unsqueeze(1)


class RowNumber(nn.Module):
    """Adds a position code over the wrong axis: the row in the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(x.shape[0], device=x.device, dtype=x.dtype)
        return x + 0.05 * rows.unsqueeze(1)


class ReadAlongBatch(nn.Module):
    """An LSTM over the four quarters of an image that forgot batch_first: it reads along the batch."""

    def __init__(self, batch_first: bool = False) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FEATURES // 4, FEATURES // 4, batch_first=batch_first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x.reshape(x.shape[0], 4, -1))[0].flatten(1)


class ReusedNormNet(SmallNet):
    """One norm for two very different populations."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(torch.relu(self.conv1(x)))
        x = self.bn1(4 * torch.relu(self.conv2(x)) + 3)
        return self.pool(x).flatten(1)


class ConstantGate(nn.Module):
    """Gates its features by what is, after a norm with one value per statistic, the same for every image."""

    def __init__(self, features: int = FEATURES) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(features, features)
        self.linear = nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.linear(self.norm(x)))


class FrozenTwinNet(SmallNet):
    """Frozen but for its classifier; train() puts the norms of the frozen part into training mode all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)
        self.fc.requires_grad_(True)


def untracked_norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm without running statistics."""
    return nn.BatchNorm2d(channels, track_running_stats=False)


def build_functional() -> FunctionalNet:
    """training=True in a call of `torch.nn.functional.batch_norm`, with the statistics of a registered layer."""
    return FunctionalNet()


def build_hand_made() -> SmallNet:
    """training=True in the second norm, which keeps no statistics."""
    return SmallNet(second=HandMadeNorm)


def build_norm_in_forward() -> NormInForwardNet:
    """A norm that is made in forward()."""
    return NormInForwardNet(second=nn.Identity)


def build_stubborn() -> SmallNet:
    """A second norm that never goes to eval."""
    return SmallNet(second=StubbornNorm)


def build_always_dropping() -> SmallNet:
    """Dropout without its training flag."""
    net = SmallNet()
    net.fc = AlwaysDropping(FEATURES)
    return net


def build_noisy() -> NoisyNet:
    """Noise in evaluation."""
    return NoisyNet()


def build_one_untracked() -> SmallNet:
    """A second norm without running statistics."""
    return SmallNet(second=untracked_norm)


def build_squeezing() -> SqueezingNet:
    """squeeze() that takes the batch axis, too."""
    return SqueezingNet()


def build_carrying() -> CarryingNet:
    """State in an attribute."""
    return CarryingNet()


def build_centering() -> CenteringNet:
    """State in a buffer that evaluation moves."""
    return CenteringNet()


def build_minibatch_spread() -> SmallNet:
    """A feature made of the whole batch."""
    net = SmallNet(middle=MinibatchSpread())
    net.fc = nn.Linear(FEATURES + 1, 10)
    return net


def build_batch_softmax() -> SmallNet:
    """softmax(0)"""
    return SmallNet(middle=BatchSoftmax(FEATURES))


def build_batch_attention() -> SmallNet:
    """Attention over the batch."""
    return SmallNet(middle=BatchAttention(FEATURES))


def build_running_mean() -> SmallNet:
    """cumsum(0)"""
    return SmallNet(middle=RunningMean())


def build_row_number() -> SmallNet:
    """The row in the batch is part of the answer."""
    return SmallNet(middle=RowNumber())


def build_read_along_batch() -> SmallNet:
    """batch_first forgotten."""
    return SmallNet(middle=ReadAlongBatch())


def build_reused_norm() -> ReusedNormNet:
    """One norm, two populations."""
    return ReusedNormNet(second=nn.Identity)


def build_constant_gate() -> SmallNet:
    """A norm with one value per statistic."""
    return SmallNet(middle=ConstantGate())


def build_frozen_twin() -> FrozenTwinNet:
    """Frozen weights whose norms train() moves."""
    return FrozenTwinNet()
