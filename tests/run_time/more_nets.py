"""More ways to go wrong, or to look like it, when a network runs; those of the samples are in `sample_models`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from sample_models.small_digits import FEATURES, SmallNet


class LargestOfBatch(nn.Module):
    """Scales by the largest value of the whole batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().amax()


class Centred(nn.Module):
    """Subtracts the batch's mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0, keepdim=True)


class Rolled(nn.Module):
    """Adds a little of the row before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * x.roll(1, 0)


class Rank(nn.Module):
    """Adds every feature's rank within the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * x.argsort(0).argsort(0)


class Sampled(nn.Module):
    """Draws one of the features as reparametrized samplers do in training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * F.gumbel_softmax(x, hard=False)


class RandomSlopes(nn.Module):
    """A randomized leaky ReLU that was told to train."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rrelu(x - 0.2, training=True)


class OneIsSpecial(nn.Module):
    """Takes another path for a batch of one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.9 * x if x.shape[0] == 1 else x


class NormedByBatch(nn.Module):
    """Functional batch norm of (N, C): a batch of one has one value per channel, and it raises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, training=True)


class CallCounter(nn.Module):
    """Counts its calls in a plain attribute; the count is part of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + 0.01 * self.calls


class HistoryList(nn.Module):
    """Keeps the last answers in a list and adds the oldest of them."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.append(x.detach().mean())
        return x + 0.1 * sum(self.last)


class AdaptingNorm(nn.BatchNorm2d):
    """Moves its own mean in evaluation, behind autograd's back, after it was used."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if not self.training:
            self.running_mean.data.mul_(0.9).add_(0.1 * x.mean((0, 2, 3)))
        return y


class MovingWeight(nn.Module):
    """A parameter that evaluation moves, through NumPy."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(FEATURES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        if not self.training:
            self.weight.detach().numpy()[:] += 0.01 * x.detach().mean(0).numpy()
        return y


class TwoAnswers(SmallNet):
    """A dict of two answers; `spoilt` mixes the samples in the second."""

    def __init__(self, spoilt: bool) -> None:
        super().__init__()
        self.spoilt = spoilt

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.features(x)
        second = x - x.mean(0, keepdim=True) if self.spoilt else x.exp()
        return {"logits": self.fc(x), "embedding": second}


class Labels(SmallNet):
    """Answers with labels only, as deployed detectors and classifiers do; `spoilt` mixes the samples before."""

    def __init__(self, spoilt: bool = False) -> None:
        super().__init__()
        self.spoilt = spoilt

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        if self.spoilt:
            x = x - 0.01 * x.mean(0, keepdim=True)
        return self.fc(x).argmax(1)


class Detector(SmallNet):
    """The three likeliest classes: scores and labels, in a tuple."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores, labels = self.fc(self.features(x)).softmax(1).topk(3)
        return scores, labels


class CallsInBuffer(SmallNet):
    """Counts its forwards in a buffer: the value is the same whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("forwards", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        return super().forward(x)


class PixelAndPlace(SmallNet):
    """Two inputs: the image and a vector that is added to its features."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Linear(2, FEATURES)

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(x) + self.place(place))


class Tokens(nn.Module):
    """A transformer over token ids with a mask over the padding; `spoilt` forgets batch_first."""

    def __init__(self, spoilt: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=not spoilt)
        self.fc = nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = ids == 0
        tokens = self.encoder(
            self.embed(ids), src_key_padding_mask=mask if self.encoder.self_attn.batch_first else None
        )
        kept = (~mask).unsqueeze(2).to(tokens.dtype)
        return self.fc((tokens * kept).sum(1) / kept.sum(1).clamp(min=1))


class Packed(nn.Module):
    """An LSTM over sequences of several lengths, packed as they should be."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.fc = nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        lengths = (ids != 0).sum(1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        return self.fc(last[-1])


class SpelledStandardizedConv2d(nn.Conv2d):
    """Its weight is standardized with reductions (big_vision's)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        deviation = self.weight.std((1, 2, 3), keepdim=True) + 1e-5
        return self._conv_forward(x, (self.weight - mean) / deviation, self.bias)


class LearnableScale(nn.Module):
    """Two branches, of which the second begins with a gamma of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.norm(self.conv(x))


class WithoutNorms(nn.Module):
    """Convolutions and a linear layer only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.fc = nn.Linear(72, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.conv(x)).flatten(1))


class WideExperts(nn.Module):
    """Experts whose matrices are wide enough that kernels round differently for other numbers of rows."""

    def __init__(self, hidden: int = 513, count: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(FEATURES, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Linear(hidden, FEATURES)) for _ in range(count)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows]))
        return x + weight.unsqueeze(1) * out
