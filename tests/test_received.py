"""Which calls of norms are one layer's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from onnx_sessions import exported
from torch import nn

import bnaudit
from bnaudit.measurement import LayerStatistics, ReusedNorm


class _Levels(nn.Module):
    """One norm over two levels of a pyramid."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.head(self.norm(x).relu()).mean((2, 3))
        coarse = self.head(self.norm(3 * x[..., ::2, ::2] + 4).relu()).mean((2, 3))
        return torch.cat([fine, coarse], 1)


def test_nodes_of_a_graph_that_share_statistics_are_one_layer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, inputs = _Levels(), torch.randn(64, 3, 6, 6)
    net.norm.momentum = None
    with torch.no_grad():
        net(inputs)
    path = exported(net.eval(), inputs[:4], tmp_path / "levels.onnx", training=torch.onnx.TrainingMode.EVAL)
    for subject in (net, str(path)):
        (audited,) = bnaudit.audit(subject, inputs=inputs.numpy().astype(np.float32)).audits
        assert audited.measured is not None
        (layer,) = audited.measured.of(LayerStatistics)
        (reused,) = audited.measured.of(ReusedNorm)
        assert (layer.layer, reused.layer, reused.calls) == ("norm", "norm", 2)
        assert {finding.rule for finding in audited.findings} >= {"BN407"}
        assert "BN404" not in {finding.rule for finding in audited.findings}
