"""Where samples meet, found in networks that PyTorch runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bnaudit
from bnaudit.results import Finding, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


class Net(nn.Module):
    """A linear layer, `middle`, a linear layer: (N, 6) → (N, 3)."""

    def __init__(self, middle: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.middle, self.last = nn.Linear(6, 8), middle, nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(torch.relu(self.first(x))))


def loud(net: nn.Module) -> list[Finding]:
    inputs = torch.randn(48, 6, generator=torch.Generator().manual_seed(1))
    report = bnaudit.audit(net.eval(), Settings(run=RunOptions(inputs=inputs)))
    return [finding for finding in report.audits[0].findings if finding.severity >= Severity.WARNING]


class Clamped(nn.Module):
    """Only a batch with a large value changes the scale."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().max().clamp(min=40.0)


def test_what_only_large_companions_show_is_located_with_them() -> None:
    (finding,) = loud(Net(Clamped()))
    assert (finding.rule, finding.layer) == ("BN301", "middle")
    assert finding.message.startswith("with its companions × 100")
    assert "test_location.py" in finding.message


class Scaled(nn.Module):
    """The mean of the batch is taken in one line and enters in another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(0, keepdim=True)
        return x - mean


class Misread(nn.Module):
    """A reshape after a transpose: the elements stay in order, and samples change places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.t().reshape(x.shape)


class LayerNormOverBatch(nn.Module):
    """A norm without modes, handed the batch as features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x.t(), (x.shape[0],)).t()


class GroupNormOverBatch(nn.Module):
    """Two samples become one of twice as many places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.group_norm(x.t().reshape(1, 8, -1), 8).reshape(8, -1).t()


class Convolved(nn.Module):
    """(N, C) read as (channels, places) by turning it over."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.t()).t()


def line_in(source: str) -> str:
    """`test_location.py:41`: where a piece of code stands here."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"test_location.py:{next(number for number, line in enumerate(lines, 1) if source in line)}"


@pytest.mark.parametrize(
    ("middle", "layer", "source", "says"),
    [
        (Scaled, "middle", "mean = x.mean(0", "as a buffer"),
        (Misread, "middle", "x.t().reshape(x.shape)", "after a transpose they mix samples"),
        (LayerNormOverBatch, "middle", "F.layer_norm(x.t()", "the transpose or reshape before it"),
        (GroupNormOverBatch, "middle", "F.group_norm(x.t()", "the transpose or reshape before it"),
        (Convolved, "middle.conv", "self.conv(x.t())", "(batch, channels, places)"),
    ],
)
def test_the_line_at_fault_is_told_with_its_usual_cause(
    middle: type[nn.Module], layer: str, source: str, says: str
) -> None:
    (finding,) = [finding for finding in loud(Net(middle())) if finding.rule != "BN303"]
    assert (finding.rule, finding.layer) == ("BN301", layer)
    assert line_in(source) in finding.message and says in finding.advice


class ByNumPy(nn.Module):
    """Centred outside of PyTorch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = x.numpy()
        return torch.from_numpy(values - np.mean(values, 0, keepdims=True))


def test_samples_that_meet_outside_of_pytorch_are_told_so_and_laid_at_no_layer() -> None:
    (finding,) = loud(Net(ByNumPy()))
    assert (finding.rule, finding.layer) == ("BN301", None)
    assert "no operator that was seen" in finding.message and "NumPy" in finding.advice


class Drawing(nn.Module):
    """Draws for negative values alone: companions decide how many numbers are left to the rows behind."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rrelu(x - 0.5, training=True)


def test_what_takes_as_many_numbers_as_the_batch_says_proves_no_mixing() -> None:
    (finding,) = loud(Net(Drawing()))
    assert (finding.rule, finding.layer) == ("BN401", "middle")
    assert "draws its slopes at random" in finding.message


class Spread(nn.Module):
    """Bends every row by how far the samples of the batch are apart, so that no norm takes it away."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x.std(0).mean() * x * x


class Stubborn(nn.BatchNorm1d):
    """Stays in training mode."""

    def train(self, mode: bool = True) -> nn.Module:
        return super().train(True)


def behind_spread(module: nn.Module) -> Net:
    torch.manual_seed(0)
    return Net(nn.Sequential(Spread(), nn.Linear(8, 8), module))


@pytest.mark.parametrize(
    ("module", "rule"),
    [(Scaled(), "BN301"), (Stubborn(8, affine=False), "BN401")],
)
def test_what_mixes_behind_another_place_is_found_too(module: nn.Module, rule: str) -> None:
    found = {
        (finding.rule, finding.layer) for finding in loud(behind_spread(module)) if finding.rule in (rule, "BN301")
    }
    assert found == {("BN301", "middle.0"), (rule, "middle.2")}


def test_what_is_meant_hides_no_other_place_behind_it() -> None:
    inputs = torch.randn(48, 6, generator=torch.Generator().manual_seed(1))
    net = behind_spread(Stubborn(8, affine=False)).eval()
    settings = Settings(run=RunOptions(inputs=inputs), intended=(("BN301", "middle.0"),))
    audit = bnaudit.audit(net, settings).audits[0]
    assert [(each.layer, each.intended) for each in audit.findings if each.rule == "BN401"] == [("middle.2", False)]


@pytest.mark.parametrize("norm", [nn.InstanceNorm1d(8), nn.BatchNorm1d(8)])
def test_norms_of_each_sample_behind_another_place_are_not_blamed(norm: nn.Module) -> None:
    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(torch.stack((x, x * x, -x), 2))[:, :, 0]

    assert {
        (finding.rule, finding.layer) for finding in loud(behind_spread(Sequences())) if finding.rule != "BN303"
    } == {("BN301", "middle.0")}
