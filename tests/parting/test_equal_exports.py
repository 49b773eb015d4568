"""A model and its export are never reported, whatever it is made of: in float32, in half precision, folded or not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from both_sides import beyond, exported, run, with_statistics
from torch import nn


def block(inputs: int, outputs: int, size: int = 3, groups: int = 1, act: Any = nn.ReLU, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


class Residual(nn.Module):
    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class Squeeze(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 2, 1), nn.Conv2d(width // 2, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Pooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x.flatten(2).transpose(1, 2)).mean(1)


class TwoHeads(nn.Module):
    def __init__(self, *, named: bool) -> None:
        super().__init__()
        self.named = named
        self.trunk, self.a, self.b = block(3, 8), nn.Linear(8, 5), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.trunk(x).mean((2, 3))
        return {"scores": self.a(x), "boxes": self.b(x)} if self.named else (self.a(x), self.b(x))


class Up(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.down, self.norm = block(3, 8), block(8, 16, stride=2), nn.BatchNorm2d(8)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        return self.last(torch.cat([first, torch.relu(self.norm(self.up(self.down(first))))], 1))


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.fc, self.norm = block(3, 8), nn.Linear(8, 16), nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.norm(self.fc(self.trunk(x).mean((2, 3)))))


class Labels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.fc = block(3, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.trunk(x).mean((2, 3))).argmax(1)


def classifier(*blocks: nn.Module, width: int = 8) -> nn.Module:
    return nn.Sequential(*blocks, Pooled(), nn.Linear(width, 6))


ACTIVATIONS = (nn.SiLU, nn.GELU, nn.Hardswish, nn.Sigmoid)
NETS: dict[str, Any] = {
    **{act.__name__: (lambda act=act: classifier(block(3, 8, act=act), block(8, 8, act=act))) for act in ACTIVATIONS},
    "depthwise": lambda: classifier(block(3, 8), block(8, 8, groups=8), Residual(block(8, 16, 1), block(16, 8, 1))),
    "deep residual": lambda: classifier(block(3, 8), *(Residual(block(8, 8), block(8, 8)) for _ in range(12))),
    "deep plain": lambda: classifier(block(3, 8), *(block(8, 8) for _ in range(16))),
    "squeeze": lambda: classifier(block(3, 8), Squeeze(8), block(8, 8), Squeeze(8)),
    "two heads": lambda: TwoHeads(named=False),
    "named heads": lambda: TwoHeads(named=True),
    "up": Up,
    "embedding": Embedding,
    "labels": Labels,
    "instance": lambda: classifier(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), block(8, 8)),
    "group": lambda: classifier(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), block(8, 8)),
    "layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.LayerNorm(8), nn.BatchNorm1d(8), nn.Softmax(1)),
    "one logit": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)),
    "norm first": lambda: classifier(nn.BatchNorm2d(3), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8)),
    "dropout": lambda: classifier(block(3, 8), nn.Dropout(0.5), block(8, 8), nn.Dropout2d(0.3)),
    "no affine": lambda: classifier(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False, eps=1e-3), nn.ReLU()),
    "attention": lambda: nn.Sequential(block(3, 8), Attention()),
    "no norm": lambda: classifier(nn.Conv2d(3, 8, 3), nn.ReLU()),
}


@pytest.mark.parametrize("name", NETS)
def test_an_export_is_equal_to_rounding(name: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = with_statistics(NETS[name]())
    kept, folded = exported(model, tmp_path / "kept.onnx"), exported(model, tmp_path / "folded.onnx", folded=True)
    half = exported(copy.deepcopy(model).half(), tmp_path / "half.onnx")
    for graph in (kept, folded, half):
        found = run(model, graph)
        assert not beyond(found), graph.name
        assert (found.parts_at, found.flips) == ("", 0)
        assert found.reference_in_eval is True and found.subject_in_eval is True
