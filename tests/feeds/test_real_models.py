"""Feeds on modules that run: what the session guesses, what the feed makes of it, what the model says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from bnaudit.feeds import Feed
from bnaudit.feeds.opening import open_feed
from bnaudit.run_options import RunOptions
from bnaudit.runners import Subject
from bnaudit.runners.pytorch import RUNNER
from bnaudit.session import NotPossibleError, Session

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits.npz"


class LeNet(nn.Module):
    """A fixed size of images: 28."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.fc = nn.Linear(6 * 24 * 24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.conv(x).flatten(1))  # type: ignore[no-any-return]


class Tagger(nn.Module):
    """Token ids of a small vocabulary, with an optional mask."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        padding = None if attention_mask is None else attention_mask == 0
        return self.encoder(self.embedding(input_ids), src_key_padding_mask=padding)  # type: ignore[no-any-return]


class Sequences(nn.Module):
    """An LSTM over (N, T, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]  # type: ignore[no-any-return]


@contextmanager
def opened(model: nn.Module, **options: Any) -> Iterator[tuple[Session, Feed]]:
    chosen = RunOptions(model=model, **options)
    with RUNNER.open(Subject(None, None, chosen)) as session:
        yield session, open_feed(session, chosen)


def _runs_all(session: Session, feed: Feed) -> list[tuple[int, ...]]:
    batches = (feed.base, feed.swapped, feed.scaled, feed.alone, feed.few(3), feed.pair(True))
    return [session.run(batch).outputs[0].values.shape for batch in batches]


@pytest.mark.parametrize("model", [LeNet(), Tagger(50), Tagger(4), Sequences(), nn.Conv1d(4, 4, 3), nn.Conv3d(3, 2, 3)])
def test_synthetic_inputs_run(model: nn.Module) -> None:
    with opened(model.eval()) as (session, feed):
        assert [shape[0] for shape in _runs_all(session, feed)] == [8, 8, 8, 1, 3, 2]
        assert feed.synthetic


def test_images_of_digits_run() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten())
    with opened(model.eval(), inputs=DIGITS) as (session, feed):
        assert [shape[0] for shape in _runs_all(session, feed)] == [16, 16, 16, 1, 3, 2]
        assert feed.source == "digits.npz, 27 of 360 samples"


def test_ids_with_their_mask_run() -> None:
    ids = np.random.default_rng(0).integers(0, 50, (40, 7))
    batches = [{"input_ids": ids, "attention_mask": np.tri(40, 7, dtype=np.int64), "labels": np.arange(40)}]
    with opened(Tagger(50).eval(), inputs=batches) as (session, feed):
        assert set(feed.base.kwargs) == {"input_ids", "attention_mask"}
        assert _runs_all(session, feed)[0] == (16, 7, 16)


def test_padding_behind_leaves_what_an_lstm_said_before() -> None:
    samples = [torch.rand(3 + index % 7, 5, generator=torch.Generator().manual_seed(index)) for index in range(60)]
    loader = DataLoader(samples, batch_size=4, collate_fn=_padded)  # type: ignore[arg-type]
    with opened(Sequences().eval(), inputs=loader) as (session, feed):
        made = feed.lengthened()
        assert made is not None
        batch, axis, (before, after) = made
        assert (axis, after) == (1, 9)
        base, longer = (session.run(each).outputs[0].values for each in (feed.base, batch))
        anchors = list(batch.anchors)
        assert np.allclose(base[anchors], longer[anchors][:, :before], atol=1e-6)


def _padded(samples: list[torch.Tensor]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(samples, batch_first=True)


def test_a_model_that_takes_no_guess_says_why() -> None:
    class Refusing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("a graph of atoms is needed")

    with pytest.raises(NotPossibleError, match="a graph of atoms is needed"), opened(Refusing()):
        pass


class _Wrapped(nn.Module):
    """A wrapper that hands on what it gets, as adapters and autocasting do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.inner(*args)  # type: ignore[no-any-return]


def test_a_wrapper_that_does_not_say_what_it_takes_gets_what_runs() -> None:
    images, lengths = torch.randn(40, 1, 28, 28), torch.arange(40.0)
    with opened(_Wrapped(nn.Bilinear(5, 1, 3)), inputs=(torch.randn(40, 5), torch.randn(40, 1))) as (session, feed):
        assert len(feed.base.args) == 2 and _runs_all(session, feed)
    with opened(_Wrapped(LeNet()), inputs=(images, lengths)) as (session, feed):
        assert len(feed.base.args) == 1 and any("targets" in remark for remark in feed.remarks)
