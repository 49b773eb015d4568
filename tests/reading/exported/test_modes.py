"""Dropout, attention, recurrent layers and random slopes of exported programs, in both modes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from exported_builders import described, export, saved
from torch import nn
from torch.nn import functional as F

from bnaudit.description import ModeDependent


class Modes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain, self.planes = nn.Dropout(0.3), nn.Dropout2d(0.25)
        self.never = nn.Dropout(0.0)
        self.slopes = nn.RReLU()
        self.memory = nn.LSTM(8, 8, 2, dropout=0.4, batch_first=True)
        self.shallow = nn.GRU(8, 8, 1, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.slopes(self.never(self.plain(x)))
        x = self.planes(x.unsqueeze(-1)).squeeze(-1)
        x = self.shallow(self.memory(x)[0])[0]
        x = self.attention(x, x, x, need_weights=False)[0]
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.15 if self.training else 0.0)


def modes_of(tmp_path: Path, *, training: bool, decomposed: bool) -> dict[str, ModeDependent]:
    program = export(Modes(), torch.randn(2, 5, 8), training=training, decomposed=decomposed, dynamic=False)
    return {entry.name: entry for entry in described(saved(program, tmp_path / "m.pt2")).parts[0].mode_dependent}


@pytest.mark.parametrize("decomposed", [False, True], ids=["as exported", "decomposed"])
def test_what_drops_in_training_mode_is_listed(tmp_path: Path, decomposed: bool) -> None:
    found = modes_of(tmp_path, training=True, decomposed=decomposed)
    expected = {
        "plain": ("dropout", 0.3),
        "planes": ("dropout", 0.25),
        "slopes": ("rrelu", None),
        "memory": ("recurrent", 0.4),
        "attention": ("attention", 0.1),
    }
    if decomposed:  # the decomposition of torch 2.13 loses dropout between layers (`num_layers < i - 1`)
        del expected["memory"]
    own = {name: entry for name, entry in found.items() if name in expected}
    assert {name: (entry.kind, entry.probability) for name, entry in own.items()} == expected
    assert all(entry.graph_training for entry in found.values())
    (functional,) = [entry for name, entry in found.items() if name not in expected]
    assert (functional.kind, functional.probability) == ("attention", 0.15)


def test_what_would_drop_in_eval_mode_is_listed_as_switched_off(tmp_path: Path) -> None:
    found = modes_of(tmp_path, training=False, decomposed=False)
    assert set(found) == {"plain", "planes", "slopes", "memory"}
    assert not any(entry.graph_training for entry in found.values())


def test_stochastic_depth_is_recognised_by_its_class(tmp_path: Path) -> None:
    class DropPath(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = x.new_empty((x.shape[0], 1)).bernoulli_(0.8)
            return x * mask / 0.8 if self.training else x

    for decomposed in (False, True):
        program = export(nn.Sequential(DropPath()), torch.randn(4, 3), training=True, decomposed=decomposed)
        (entry,) = described(saved(program, tmp_path / "m.pt2")).parts[0].mode_dependent
        assert (entry.name, entry.kind, entry.probability) == ("0", "stochastic-depth", 0.2)
