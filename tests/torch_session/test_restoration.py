"""Nothing of a user's model, and nothing around it, is other after a session than before."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_session.nasty_modules import MISDEEDS, Nasty
from torch_session.snapshots import snapshot, surroundings

from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Mode, RunError, Session, Watch
from bnaudit.torch_session.opening import opened

BATCH = Batch(args=(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32),), size=4, anchors=(0, 2, 3))

CHANCE = {"raises", "is interrupted", "draws", "hooks"}
"""Hooks are numbered throughout a process."""


def run_everything(model: nn.Module, modes: list[Mode], watch: Watch) -> None:
    with opened(None, None, RunOptions(model=model)) as session:
        for mode in modes:
            if mode in session.modes:
                with suppress(RunError, KeyboardInterrupt):
                    session.run(BATCH, mode, watch, seed=0)


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_each_misdeed_is_undone(misdeed: str) -> None:
    model = Nasty((misdeed,))
    before, around = snapshot(model), surroundings()
    run_everything(model, list(Mode), Watch.CALLS)
    assert snapshot(model) == before
    assert surroundings() == around


@settings(max_examples=40)
@given(
    misdeeds=st.lists(st.sampled_from(sorted(MISDEEDS)), max_size=6),
    modes=st.lists(st.sampled_from(Mode), min_size=1, max_size=3),
    watch=st.sampled_from(Watch),
    training=st.booleans(),
)
def test_all_is_as_before(misdeeds: list[str], modes: list[Mode], watch: Watch, training: bool) -> None:
    model = Nasty(tuple(misdeeds)).train(training)
    before, around = snapshot(model), surroundings()
    run_everything(model, modes, watch)
    assert snapshot(model) == before
    assert surroundings() == around


@settings(max_examples=25)
@given(misdeeds=st.lists(st.sampled_from(sorted(set(MISDEEDS) - CHANCE)), max_size=5, unique=True))
def test_every_forward_begins_from_the_same_state(misdeeds: list[str]) -> None:
    model = Nasty(tuple(misdeeds))
    with opened(None, None, RunOptions(model=model)) as session:
        first = outcome(session)
        for mode in (Mode.INFERENCE, Mode.TRAINING_NORMS):
            with suppress(RunError):
                session.run(BATCH, mode, restored=False)
        assert outcome(session) == first


def outcome(session: Session) -> object:
    """What a forward gives and changes, or raises: one misdeed may be in the way of another."""
    try:
        trace = session.run(BATCH, Mode.TRAINING_NORMS)
    except RunError as error:
        return str(error)
    return trace.outputs[0].values.tobytes(), trace.changes


def test_an_error_of_the_callers_restores_too() -> None:
    model = Nasty(("adds to a buffer in place",))
    before = snapshot(model)
    with pytest.raises(KeyboardInterrupt), opened(None, None, RunOptions(model=model)) as session:
        session.run(BATCH)
        raise KeyboardInterrupt
    assert snapshot(model) == before


def test_float64_and_gradients_leave_no_trace() -> None:
    model = Nasty()
    before, around = snapshot(model), surroundings()
    with opened(None, None, RunOptions(model=model)) as session:
        with session.double() as double:
            assert double.run(BATCH).outputs[0].dtype == "float64"
        assert session.influence(BATCH) == 0.0
        session.trained()
    assert snapshot(model) == before
    assert surroundings() == around


def test_merging_weights_in_eval_is_kept_apart_from_training() -> None:
    class Merging(nn.Module):
        """Adds a low-rank update to its weight when it goes to eval, as LoRA does."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3, bias=False)
            self.norm = nn.BatchNorm1d(3)
            self.update = nn.Parameter(torch.ones(3, 4))

        def train(self, mode: bool = True) -> Merging:
            if mode != self.training:
                self.linear.weight.data.add_(self.update.data, alpha=-1.0 if mode else 1.0)
            return super().train(mode)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.linear(x))

    model = Merging()
    before = snapshot(model)
    merged = torch.from_numpy(BATCH.args[0]) @ (model.linear.weight + model.update).detach().T
    expected = merged / (1 + model.norm.eps) ** 0.5
    with opened(None, None, RunOptions(model=model)) as session:
        for _ in range(2):
            got = session.run(BATCH).outputs[0].values
            assert np.allclose(got, expected.numpy(), atol=1e-5)
            session.run(BATCH, Mode.TRAINING_NORMS)
    assert snapshot(model) == before
