"""What is said when the model does not take the user's inputs."""

from __future__ import annotations

import numpy as np
from feeds.sessions import FakeSession, takes

from bnaudit.description import Carrier
from bnaudit.feeds.fitting import misfit
from bnaudit.session import Batch, RunError


def test_both_sides_are_in_the_sentence() -> None:
    batch = Batch(args=(np.zeros((4, 1, 8, 8), np.float32),), size=4, anchors=(0,))
    session = FakeSession(takes((None, 3, "height", "width")))
    sentence = str(misfit(session, batch, RunError("the model raised RuntimeError: 3 channels are needed")))
    assert "3 channels are needed" in sentence
    assert "given: float32 (4, 1, 8, 8)" in sentence
    assert "the model probably takes: x float32 (?, 3, height, width)" in sentence


def test_a_graph_takes_what_it_says_for_certain() -> None:
    batch = Batch(args=(), kwargs={"ids": np.zeros((4, 7), np.int64)}, size=4, anchors=(0,))
    session = FakeSession(takes(("batch", 9), dtype="int64"), carrier=Carrier.GRAPH)
    sentence = str(misfit(session, batch, RunError("it raised")))
    assert "given: ids int64 (4, 7)" in sentence
    assert "the model takes: x int64 (batch, 9)" in sentence
