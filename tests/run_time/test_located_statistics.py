"""One layer whose statistics are off is named alone, and perfect statistics are never blamed, over many draws."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import bnaudit
from bnaudit.results import Severity

DRAWS, CHANNELS, SIZE = 50, 8, 6
NORMS = ("1", "4", "7")


def images(count: int, seed: int) -> torch.Tensor:
    """Images whose neighbouring values are alike, as those of photographs are."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 3, 3, 3, generator=generator)
    return nn.functional.interpolate(coarse, size=SIZE, mode="bilinear") + 0.3 * torch.randn(
        count, 3, SIZE, SIZE, generator=generator
    )


@pytest.fixture(scope="module")
def net() -> nn.Module:
    """Three norms with the exact statistics of 4,096 images."""
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for inputs in (3, CHANNELS, CHANNELS):
        layers += [nn.Conv2d(inputs, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS, momentum=None), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(CHANNELS * SIZE * SIZE, 5))
    with torch.no_grad():
        model(images(4096, 0))
    return model.eval()


def named(model: nn.Module, inputs: torch.Tensor, **options: int) -> list[str | None]:
    """The layers of which a warning or an error speaks."""
    report = bnaudit.audit(model, inputs=inputs, **options)
    return sorted(
        {finding.layer for finding in report.findings if finding.severity >= Severity.WARNING and finding.layer}
    )


@pytest.mark.parametrize("fault", ["one standard deviation", "a factor 4", "a quarter"])
def test_one_layer_is_named_alone_in_every_draw_of_sixteen_samples(net: nn.Module, fault: str) -> None:
    signs = np.random.default_rng(5)
    for draw in range(DRAWS):
        broken, layer = copy.deepcopy(net), NORMS[draw % len(NORMS)]
        norm = broken.get_submodule(layer)
        assert isinstance(norm.running_mean, torch.Tensor)
        assert isinstance(norm.running_var, torch.Tensor)
        if fault == "one standard deviation":
            norm.running_mean += norm.running_var.sqrt() * torch.from_numpy(signs.choice([-1.0, 1.0], CHANNELS)).float()
        else:
            norm.running_var *= 4.0 if fault == "a factor 4" else 0.25
        assert named(broken, images(16, 100 + draw), batch_size=16) == [layer], f"draw {draw}"


@pytest.mark.parametrize("batch_size", [4, 8, 16, 32])
def test_perfect_statistics_are_blamed_at_no_batch_size(net: nn.Module, batch_size: int) -> None:
    for draw in range(10):
        assert not named(net, images(64, 500 + draw), batch_size=batch_size)
