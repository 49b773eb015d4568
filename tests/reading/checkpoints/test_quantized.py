"""State dicts of quantized networks: norms are fused into the convolutions before those are quantized."""

from __future__ import annotations

from pathlib import Path

import torch

import bnaudit

FLOATS = {
    "c.weight": torch.randn(8, 3, 3, 3, generator=torch.Generator().manual_seed(0)),
    "c.bias": torch.zeros(8),
    "b.weight": torch.ones(8),
    "b.bias": torch.zeros(8),
    "b.running_mean": torch.full((8,), 0.5),
    "b.running_var": torch.full((8,), 2.0),
    "b.num_batches_tracked": torch.tensor(7),
}
NORM = {name: value for name, value in FLOATS.items() if name.startswith("b.")}


def quantized(weight: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(weight, 0.05, 0, torch.qint8)


def test_quantized_convolutions_without_norms_are_evidence_of_folding(tmp_path: Path) -> None:
    torch.save({"c.weight": quantized(FLOATS["c.weight"]), "c.bias": FLOATS["c.bias"]}, tmp_path / "q.pt")
    torch.save(FLOATS, tmp_path / "f.pt")
    (part,) = bnaudit.describe(tmp_path / "q.pt").parts
    assert part.folded == "the one convolution is quantized, before which norms are folded"
    for one, other in (("f.pt", "q.pt"), ("q.pt", "f.pt")):
        (audit,) = bnaudit.compare(tmp_path / one, tmp_path / other).audits
        assert [finding for finding in audit.findings if finding.severity >= 2] == []


def test_norms_that_are_left_and_linear_layers_are_none(tmp_path: Path) -> None:
    torch.save({"c.weight": quantized(FLOATS["c.weight"]), **NORM}, tmp_path / "q.pt")
    torch.save({"l.weight": quantized(torch.randn(8, 3)), "c.bias": FLOATS["c.bias"]}, tmp_path / "l.pt")
    for name in ("q.pt", "l.pt"):
        assert [part.folded for part in bnaudit.describe(tmp_path / name).parts] == [""]
