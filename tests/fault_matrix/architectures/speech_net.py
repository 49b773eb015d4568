"""A 1-D net over frames of speech of several lengths: it zeroes what follows an utterance after every layer."""

from __future__ import annotations

from typing import Any

import torch
from fault_matrix.architectures.training import SAMPLES, fitted
from fault_matrix.values import Architecture, Inputs
from torch import nn
from torch.utils.data import DataLoader

LONGEST, BANDS = 24, 10


class SpeechNet(nn.Module):
    """Frames (N, T, bands) and lengths (N,) to one score per word, pooled over the frames that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(BANDS, 12, 5, padding=2), nn.BatchNorm1d(12)
        self.conv2, self.bn2 = nn.Conv1d(12, 12, 3, padding=1, groups=4, bias=False), nn.BatchNorm1d(12)
        self.conv3, self.bn3 = nn.Conv1d(12, 16, 1, bias=False), nn.BatchNorm1d(16)
        self.words = nn.Linear(16, 6)

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = frames.transpose(1, 2)
        mask = (torch.arange(x.shape[2]) < lengths[:, None]).to(x.dtype)[:, None]
        x = torch.relu(self.bn1(self.conv1(x * mask))) * mask
        x = torch.relu(self.bn2(self.conv2(x))) * mask
        x = torch.relu(self.bn3(self.conv3(x))) * mask
        return self.words(x.sum(2) / mask.sum(2))


def speech() -> Inputs:
    """64 utterances of six words, 12 to 24 frames long, zeros behind; at least one has full length."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(12, LONGEST + 1, (SAMPLES,), generator=generator)
    lengths[5] = LONGEST
    words = torch.randn(6, LONGEST, BANDS, generator=generator).cumsum(1) / 2
    frames = words[torch.arange(SAMPLES) % 6] + 0.5 * torch.randn(SAMPLES, LONGEST, BANDS, generator=generator)
    return frames * (torch.arange(LONGEST) < lengths[:, None])[..., None], lengths


def loader(inputs: Inputs) -> DataLoader[Any]:
    """The utterances at their own lengths, padded to the longest of each batch, as in production."""
    frames, lengths = inputs
    samples = [each[: int(length)] for each, length in zip(frames, lengths, strict=True)]
    return DataLoader(samples, batch_size=16, collate_fn=collate)  # type: ignore[arg-type]


def collate(samples: list[torch.Tensor]) -> Inputs:
    lengths = torch.tensor([len(each) for each in samples])
    return nn.utils.rnn.pad_sequence(samples, batch_first=True), lengths


ARCHITECTURES = [Architecture("1-D speech net", lambda: fitted(SpeechNet(), speech()), speech, given=loader)]
