"""What a module takes, guessed from its first layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from bnaudit.torch_session.signatures import guesses
from sample_models import digits


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.linear = nn.Linear(8, 2)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.linear(self.embedding(input_ids)) * attention_mask[..., None]


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.conv(image)


FIRST: dict[str, tuple[Callable[[], nn.Module], list[tuple[str, str, tuple[object, ...]]]]] = {
    "conv2d": (digits.build, [("x", "float32", (None, 1, "height", "width"))]),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(5, 2, 3)), [("input", "float32", (None, 5, "length"))]),
    "conv3d": (lambda: nn.Conv3d(2, 2, 3), [("input", "float32", (None, 2, "depth", "height", "width"))]),
    "transposed": (lambda: nn.ConvTranspose2d(6, 2, 3), [("input", "float32", (None, 6, "height", "width"))]),
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(7, 2)), [("input", "float32", (None, 7))]),
    "half": (lambda: nn.Linear(7, 2).half(), [("input", "float16", (None, 7))]),
    "batch norm 1d": (lambda: nn.BatchNorm1d(3), [("input", "float32", (None, 3))]),
    "batch norm 2d": (lambda: nn.BatchNorm2d(3), [("input", "float32", (None, 3, "height", "width"))]),
    "layer norm": (lambda: nn.LayerNorm(9), [("input", "float32", (None, "length", 9))]),
    "recurrent": (lambda: nn.LSTM(4, 5, batch_first=True), [("input", "float32", (None, "length", 4))]),
    "attention": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        [("src", "float32", (None, "length", 8))],
    ),
    "tokens": (Tokens, [("input_ids", "int64", (None, "length")), ("attention_mask", "int64", (None, "length"))]),
    "lengths": (Branches, [("image", "float32", (None, 3, "height", "width")), ("lengths", "int64", (None,))]),
    "wrapped": (lambda: nn.DataParallel(digits.build()), [("x", "float32", (None, 1, "height", "width"))]),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_likeliest(name: str) -> None:
    build, expected = FIRST[name]
    first = guesses(build())[0]
    assert [(declared.name, declared.dtype, declared.shape) for declared in first] == expected


def test_linear_layers_may_take_sequences() -> None:
    shapes = [signature[0].shape for signature in guesses(nn.Linear(7, 2))]
    assert shapes == [(None, 7), (None, "length", 7)]


def test_nothing_to_go_by_gives_none() -> None:
    assert guesses(nn.Sequential(nn.ReLU())) == ()


def test_lazy_layers_do_not_break_it() -> None:
    assert guesses(nn.Sequential(nn.LazyConv2d(3, 3), nn.Linear(4, 2)))
