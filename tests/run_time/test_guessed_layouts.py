"""Sequences whose layout nobody gave: PyTorch's default is no defect, and a real one is found with inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import bnaudit
from bnaudit.results import Outcome, Question, Severity


class _Tagger(nn.Module):
    """A label per step; PyTorch's default layout is (length, batch, features)."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        lstm, encoder = nn.LSTM(6, 8), nn.TransformerEncoderLayer(6, 2, 8)
        self.layer: nn.Module = lstm if layer == "lstm" else encoder
        self.head = nn.Linear(8 if layer == "lstm" else 6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        labels: torch.Tensor = self.head(hidden[0] if isinstance(hidden, tuple) else hidden)
        return labels


def _neighbours(layer: str, **options: Any) -> tuple[Outcome, set[tuple[str, Severity]]]:
    torch.manual_seed(0)
    (audited,) = bnaudit.audit(_Tagger(layer).eval(), **options).audits
    (verdict,) = (found for found in audited.verdicts if found.question is Question.NEIGHBOURS)
    return verdict.outcome, {(found.rule, found.severity) for found in audited.findings}


@pytest.mark.parametrize("layer", ["lstm", "encoder"])
def test_a_guessed_layout_accuses_no_one(layer: str) -> None:
    outcome, found = _neighbours(layer)
    assert outcome is Outcome.INCONCLUSIVE and found == {("BN301", Severity.NOTE)}


@pytest.mark.parametrize("layer", ["lstm", "encoder"])
def test_a_given_layout_is_judged(layer: str) -> None:
    sequences = np.random.default_rng(0).normal(size=(40, 12, 6)).astype(np.float32)
    assert _neighbours(layer, axis=1)[0] is Outcome.PASSED
    assert _neighbours(layer, inputs=sequences.swapaxes(0, 1).copy(), axis=1)[0] is Outcome.PASSED
    outcome, found = _neighbours(layer, inputs=sequences)
    assert outcome is Outcome.FAILED and ("BN301", Severity.ERROR) in found
    assert _neighbours(layer, axis=0)[0] is Outcome.FAILED


class _Last(_Tagger):
    """The labels of the last step alone, (batch, 3): read along axis 0 of (length, batch, features), none has rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)[-1]


def test_samples_along_another_axis_are_asked_for() -> None:
    torch.manual_seed(0)
    sequences = np.random.default_rng(0).normal(size=(40, 12, 6)).astype(np.float32)
    (without,) = bnaudit.audit(_Last("lstm").eval(), inputs=sequences).audits
    (given,) = bnaudit.audit(_Last("lstm").eval(), inputs=sequences.swapaxes(0, 1).copy(), axis=1).audits
    asked, decided = (
        next(found for found in audited.verdicts if found.question is Question.NEIGHBOURS)
        for audited in (without, given)
    )
    assert asked.outcome is Outcome.INCONCLUSIVE
    assert asked.needs == "--batch-axis, if the samples stand along another one"
    assert (decided.outcome, decided.needs) == (Outcome.PASSED, "")
