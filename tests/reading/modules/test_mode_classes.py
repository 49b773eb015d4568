from __future__ import annotations

import pytest
from torch import nn

from bnaudit.reading.modules.mode_classes import mode_of_class


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (nn.Dropout, "dropout"),
        (nn.Dropout2d, "dropout"),
        (nn.AlphaDropout, "dropout"),
        (nn.MultiheadAttention, "attention"),
        (nn.LSTM, "recurrent"),
        (nn.GRU, "recurrent"),
        (nn.RReLU, "rrelu"),
        (nn.ReLU, None),
        (nn.LSTMCell, None),
        (nn.LayerNorm, None),
        (nn.TransformerEncoderLayer, None),
    ],
)
def test_pytorchs_own_classes(module: type[nn.Module], kind: str | None) -> None:
    assert mode_of_class(module.__name__) == kind


@pytest.mark.parametrize("name", ["DropPath", "StochasticDepth", "DropConnect", "Drop_Path"])
def test_stochastic_depth_by_its_names(name: str) -> None:
    assert mode_of_class(name) == "stochastic-depth"
