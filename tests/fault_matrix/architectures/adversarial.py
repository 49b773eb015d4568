"""The two halves of a GAN: a generator with transposed convolutions, a critic that looks at the spread of its batch."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import SAMPLES, fitted, images
from fault_matrix.values import Architecture, Design, Inputs
from torch import nn


def noise() -> Inputs:
    return (torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(5)),)


class Generator(nn.Module):
    """From noise to images of 12 × 12, as DCGAN's."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.norm0 = nn.Linear(16, 12 * 9, bias=False), nn.BatchNorm1d(12 * 9)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(12, 8, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Conv2d(6, 3, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.norm0(self.project(z))).reshape(-1, 12, 3, 3))


class MinibatchSpread(nn.Module):
    """One more channel: the mean over places of the standard deviation over the batch (progressive GANs)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spread = torch.sqrt(x.var(0, unbiased=False) + 1e-8).mean()
        return torch.cat((x, spread * torch.ones_like(x[:, :1])), 1)


class Critic(nn.Module):
    """A score of how real an image is, beside the others of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 4, stride=2, padding=1)
        self.conv2, self.norm2 = nn.Conv2d(8, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12)
        self.minibatch = MinibatchSpread()
        self.conv3, self.norm3 = nn.Conv2d(13, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12)
        self.score = nn.Linear(12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.leaky_relu(self.conv1(x), 0.2)
        x = self.minibatch(nn.functional.leaky_relu(self.norm2(self.conv2(x)), 0.2))
        x = nn.functional.leaky_relu(self.norm3(self.conv3(x)), 0.2)
        return self.score(x.mean((2, 3)))


ARCHITECTURES = [
    Architecture("GAN generator", lambda: fitted(Generator(), noise()), noise),
    Architecture(
        "GAN critic",
        lambda: fitted(Critic(), images()),
        images,
        designs=(Design("BN301", "minibatch", (("BN301", "minibatch*"), ("BN301", ""))),),
    ),
]
