"""Batch norm operators on a batch axis of 1: which ones keep the samples apart, measured on the modules themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from exported_builders import described, export, saved
from torch import nn
from torch.nn import functional as F

from bnaudit.description import NormKind, NormLayer


class Functional(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.instance_norm(x)


class Grouped(nn.Module):
    """GroupNorm as batch norm on (1, N·groups, …)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = x.reshape(1, x.shape[0] * 2, -1)
        return F.batch_norm(seen, None, None, training=True).reshape(x.shape)


class PerSample(nn.Module):
    """One statistic per sample: the batch becomes the channel axis."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x.unsqueeze(0), None, None, training=True).squeeze(0)


class Standardized(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(flat, None, None, training=True, momentum=0.0).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias)


class ScaledStandardized(nn.Conv2d):
    """The weight is computed before it is viewed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = (self.weight * 2 + 1).reshape(1, self.out_channels, -1)
        weight = F.batch_norm(flat, None, None, training=True, momentum=0.0).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias)


class Mixing(nn.Module):
    """Batch norm by hand: the batch is moved into the positions, every channel sees all samples."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        channels = x.shape[1]
        seen = x.permute(1, 0, 2, 3).reshape(1, channels, -1)
        return F.batch_norm(seen, None, None, training=True).reshape(channels, -1, 8, 8).permute(1, 0, 2, 3)


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, training=True)


CASES = [
    Functional(),
    nn.Sequential(nn.InstanceNorm2d(4)),
    nn.Sequential(nn.InstanceNorm2d(4, affine=True)),
    Grouped(),
    PerSample(),
    Standardized(4, 4, 3),
    ScaledStandardized(4, 4, 3),
    Mixing(),
    Plain(),
]


def neighbours_matter(module: nn.Module) -> bool:
    """The oracle: whether sample 0 comes out otherwise when its companions change."""
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(4, 4, 8, 8, generator=generator)
    second = torch.cat([first[:1], torch.randn(3, 4, 8, 8, generator=generator) * 3])
    with torch.no_grad():
        return not torch.allclose(module(first)[0], module(second)[0], atol=1e-5)


def only_layer(tmp_path: Path, module: nn.Module, *, decomposed: bool, dynamic: bool, batch: int = 4) -> NormLayer:
    program = export(module, torch.randn(batch, 4, 8, 8), training=False, decomposed=decomposed, dynamic=dynamic)
    (layer,) = described(saved(program, tmp_path / "m.pt2")).parts[0].layers
    return layer


@pytest.mark.parametrize("module", CASES, ids=lambda module: type(getattr(module, "0", module)).__name__)
@pytest.mark.parametrize("decomposed", [False, True], ids=["as exported", "decomposed"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["batch of 4", "free batch"])
def test_the_graph_tells_instance_from_batch(
    tmp_path: Path, module: nn.Module, decomposed: bool, dynamic: bool
) -> None:
    layer = only_layer(tmp_path, module, decomposed=decomposed, dynamic=dynamic)
    if neighbours_matter(module):
        assert (layer.kind, layer.graph_training) == (NormKind.BATCH, True)
    else:
        assert (layer.kind, layer.graph_training) == (NormKind.INSTANCE, None)
        assert layer.tracks_statistics is False


def test_a_fixed_batch_of_one_is_told_by_the_view_that_changes_nothing(tmp_path: Path) -> None:
    instance = only_layer(tmp_path, Functional(), decomposed=True, dynamic=False, batch=1)
    assert (instance.kind, instance.graph_training) == (NormKind.INSTANCE, None)
    plain = only_layer(tmp_path, Plain(), decomposed=True, dynamic=False, batch=1)
    assert (plain.kind, plain.graph_training) == (NormKind.BATCH, True)


def test_a_batch_norm_behind_a_view_with_a_fixed_batch_of_one_stays_one(tmp_path: Path) -> None:
    class Flattened(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x.view(1, 4, 64))

    program = export(Flattened(), torch.randn(1, 4, 8, 8), training=True, decomposed=True, dynamic=False)
    (layer,) = described(saved(program, tmp_path / "m.pt2")).parts[0].layers
    assert (layer.name, layer.kind, layer.graph_training) == ("norm", NormKind.BATCH, True)


def test_statistics_computed_from_the_input_are_told_from_stored_ones(tmp_path: Path) -> None:
    class FromInput(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.batch_norm(x, x.mean((0, 2, 3)), x.var((0, 2, 3)), training=False)

    class Computed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("m", torch.zeros(4))
            self.register_buffer("v", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.batch_norm(x, self.m * 2, self.v.clamp(min=0.1), training=False)

    for module, from_input in ((FromInput(), True), (Computed(), False), (nn.Sequential(nn.BatchNorm2d(4)), False)):
        layer = only_layer(tmp_path, module, decomposed=False, dynamic=True)
        assert layer.statistics_from_input is from_input
        assert layer.graph_training is False
        assert layer.running_mean is not None
        assert layer.running_mean.unread is not isinstance(module, nn.Sequential)
