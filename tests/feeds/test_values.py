"""Companions × 100, or redrawn: values that the model may be given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import bnaudit
from bnaudit.feeds.axes import Axes
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.values import scaled
from bnaudit.results import Outcome, Question

_ROWS = list(range(2, 8))


def _scaled(*arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    pool = Pool((arrays, {}), Axes((0,) * len(arrays), len(arrays[0])))
    return list(scaled(pool, _ROWS, np.random.default_rng(0)).tree[0])


def _padded(samples: int = 8, length: int = 12) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Token ids 1 … 29 and the mask (1 up to each sample's own length) of what is no padding."""
    generator = np.random.default_rng(1)
    mask = (np.arange(length) < generator.integers(4, length - 1, (samples, 1))).astype(np.int64)
    return generator.integers(1, 30, (samples, length)) * mask, mask


def test_redrawn_tokens_keep_the_padding_of_every_sample() -> None:
    ids, _ = _padded()
    (redrawn,) = _scaled(ids)
    assert np.array_equal(redrawn == 0, ids == 0)
    assert np.array_equal(redrawn[:2], ids[:2])
    assert (redrawn[2:] != ids[2:]).any(axis=1).all()


def test_redrawn_tokens_keep_padding_on_the_left() -> None:
    ids = _padded()[0][:, ::-1]
    (redrawn,) = _scaled(ids)
    assert np.array_equal(redrawn == 0, ids == 0)


def test_a_mask_of_integers_keeps_its_rows_whole() -> None:
    ids, mask = _padded()
    _, other = _scaled(ids, mask)
    given = {tuple(row) for row in mask.tolist()}
    assert {tuple(row) for row in other.tolist()} <= given


def test_two_valued_integers_alone_are_redrawn() -> None:
    drawing = (np.random.default_rng(2).random((8, 5, 5)) < 0.3).astype(np.int64)
    (redrawn,) = _scaled(drawing)
    assert (redrawn[2:] != drawing[2:]).any(axis=(1, 2)).all()
    assert set(np.unique(redrawn)) == {0, 1}


class _Encoder(nn.Module):
    """PyTorch's own encoder, whose fast path depends on whether all masks are aligned to the left."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        hidden = input_ids == 0 if attention_mask is None else attention_mask == 0
        encoded: torch.Tensor = self.layers(self.embed(input_ids), src_key_padding_mask=hidden)
        return encoded


@pytest.mark.parametrize("with_mask", [False, True])
def test_a_padded_encoder_passes(with_mask: bool) -> None:
    torch.manual_seed(0)
    ids, mask = _padded(48)
    inputs = {"input_ids": ids, "attention_mask": mask} if with_mask else {"input_ids": ids}
    report = bnaudit.audit(_Encoder().eval(), inputs=inputs)
    (verdict,) = (found for found in report.audits[0].verdicts if found.question is Question.NEIGHBOURS)
    assert verdict.outcome is Outcome.PASSED, verdict.reason
