"""Which modules other than norms depend on the mode: measured on real classes, and foreign ones by their attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pickled_modules import part_of, viewed
from torch import nn

from bnaudit.description import ModeDependent
from bnaudit.reading.modules.mode_modules import mode_dependent

IMAGE, TOKENS = (2, 4, 6, 6), (3, 2, 8)
CASES: list[tuple[nn.Module, tuple[int, ...], str | None, float | None]] = [
    (nn.Dropout(0.5), IMAGE, "dropout", 0.5),
    (nn.Dropout(0.0), IMAGE, None, None),
    (nn.Dropout1d(0.3), TOKENS, "dropout", 0.3),
    (nn.Dropout2d(0.3), IMAGE, "dropout", 0.3),
    (nn.AlphaDropout(0.2), IMAGE, "dropout", 0.2),
    (nn.FeatureAlphaDropout(0.4), IMAGE, "dropout", 0.4),
    (nn.RReLU(), IMAGE, "rrelu", None),
    (nn.LSTM(8, 4, num_layers=2, dropout=0.5), TOKENS, "recurrent", 0.5),
    (nn.GRU(8, 4, num_layers=2, dropout=0.25), TOKENS, "recurrent", 0.25),
    (nn.RNN(8, 4, num_layers=3, dropout=0.5), TOKENS, "recurrent", 0.5),
    (nn.LSTM(8, 4, num_layers=2), TOKENS, None, None),
    (nn.LSTM(8, 4, num_layers=1), TOKENS, None, None),
    (nn.ReLU(), IMAGE, None, None),
    (nn.Linear(8, 8), TOKENS, None, None),
    (nn.LPPool2d(2, 2), IMAGE, None, None),
    (nn.Softmax(1), IMAGE, None, None),
]


@pytest.mark.parametrize(("module", "shape", "kind", "probability"), CASES, ids=lambda value: str(value)[:30])
def test_torch_agrees_on_what_depends_on_the_mode(
    tmp_path: Path, module: nn.Module, shape: tuple[int, ...], kind: str | None, probability: float | None
) -> None:
    found = mode_dependent("x", viewed(module, tmp_path))
    assert (found.kind if found else None, found.probability if found else None) == (kind, probability)
    assert (found is not None) is differs_in_training(module, shape)


def differs_in_training(module: nn.Module, shape: tuple[int, ...]) -> bool:
    torch.manual_seed(0)
    inputs = -torch.rand(shape) - 1
    trained, evaluated = (module.train(mode)(inputs) for mode in (True, False))
    first = [output[0] if isinstance(output, tuple) else output for output in (trained, evaluated)]
    return not torch.equal(*first)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_quantized_dropout_drops_nothing(tmp_path: Path) -> None:
    dropout = torch.ao.nn.quantized.Dropout(0.5)
    x = torch.quantize_per_tensor(torch.randn(64), 0.1, 0, torch.qint8)
    assert dropout.training and torch.equal(dropout(x).dequantize(), x.dequantize())
    assert mode_dependent("x", viewed(dropout, tmp_path)) is None


@pytest.mark.parametrize(("probability", "listed"), [(0.1, True), (0.0, False)])
def test_attention_drops_its_weights(tmp_path: Path, probability: float, listed: bool) -> None:
    attention = nn.MultiheadAttention(8, 2, dropout=probability)
    found = mode_dependent("x", viewed(attention, tmp_path))
    assert (found is not None and found.kind == "attention") is listed


def test_single_layer_recurrence_ignores_its_dropout(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="non-zero dropout"):
        module = nn.LSTM(8, 4, num_layers=1, dropout=0.5)
    assert not differs_in_training(module, TOKENS)
    assert mode_dependent("x", viewed(module, tmp_path)) is None


def test_a_transformer_layer_lists_its_own_parts(tmp_path: Path) -> None:
    part = part_of(nn.TransformerEncoderLayer(8, 2, dropout=0.1).eval(), tmp_path)
    found = [(entry.name, entry.kind, entry.training) for entry in part.mode_dependent]
    expected = [("self_attn", "attention"), ("dropout", "dropout"), ("dropout1", "dropout"), ("dropout2", "dropout")]
    assert found == [(name, kind, False) for name, kind in expected]


class Foreign(nn.Module):
    """Takes anything as attributes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.__dict__.update(attributes)


class DropPath(Foreign):
    """timm's"""


class StochasticDepth(Foreign):
    """torchvision's"""


class DropBlock2d(Foreign):
    """timm's"""


class StableDropout(Foreign):
    """DeBERTa's"""


class DropoutAddNorm(Foreign):
    """A block around a dropout"""


class LlamaAttention(Foreign):
    """transformers'"""


class Sampler(nn.Dropout):
    """A subclass whose name says nothing"""


@pytest.mark.parametrize(
    ("module", "kind", "probability"),
    [
        (DropPath(drop_prob=0.2, scale_by_keep=True), "stochastic-depth", 0.2),
        (DropPath(drop_prob=0.0), None, None),
        (DropPath(drop_prob=None), None, None),
        (StochasticDepth(p=0.1, mode="row"), "stochastic-depth", 0.1),
        (DropBlock2d(drop_prob=0.1, block_size=7), "dropout", 0.1),
        (StableDropout(drop_prob=0.1), "dropout", 0.1),
        (DropoutAddNorm(size=3), None, None),
        (LlamaAttention(attention_dropout=0.1), "attention", 0.1),
        (LlamaAttention(attention_dropout=0.0), None, None),
        (Sampler(0.3), "dropout", 0.3),
        (Foreign(p=0.3), None, None),
        # torchvision's RandomErasing acts in eval mode, too
        (Foreign(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False), None, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_foreign_classes_by_name_and_attributes(
    tmp_path: Path, module: nn.Module, kind: str | None, probability: float | None
) -> None:
    found = mode_dependent("x", viewed(module, tmp_path))
    assert (found.kind if found else None, found.probability if found else None) == (kind, probability)


def test_name_class_and_flag_are_kept(tmp_path: Path) -> None:
    assert mode_dependent("block.drop", viewed(nn.Dropout(0.5).eval(), tmp_path)) == ModeDependent(
        name="block.drop",
        kind="dropout",
        class_name="torch.nn.modules.dropout.Dropout",
        probability=0.5,
        training=False,
    )
