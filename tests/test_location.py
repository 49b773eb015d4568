"""Where samples meet, found in networks that PyTorch runs."""

from __future__ import annotations

import torch
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
