"""Forwards under a Recorder, for the tests of what it shows."""

from __future__ import annotations

from typing import Any

import torch

from bnaudit.mixing import mixing
from bnaudit.session import Held, OperatorCall, Watch
from bnaudit.torch_session.recording import LayerNames, Recorder


def recorded(
    model: torch.nn.Module,
    *args: Any,
    watch: Watch = Watch.CALLS,
    anchors: tuple[int, ...] | None = None,
    hold: tuple[Held, ...] = (),
    size: int | None = None,
) -> Recorder:
    """One forward; the batch is the first dimension of the first argument."""
    size = size if size is not None else args[0].shape[0]
    rows = anchors if anchors is not None else (0, size // 2, size - 1)
    recorder = Recorder(model, LayerNames.of(model), watch=watch, size=size, anchors=rows, hold=hold)
    with torch.no_grad(), recorder:
        model(*args)
    return recorder


def swapped(batch: torch.Tensor, anchors: tuple[int, ...]) -> torch.Tensor:
    """The batch with every row but the anchors' another one."""
    other = batch.clone()
    rows = [row for row in range(len(batch)) if row not in anchors]
    other[rows] = other[rows].flip(-1) + 1
    return other


def places_of_mixing(
    model: torch.nn.Module, batch: torch.Tensor, anchors: tuple[int, ...], hold: tuple[Held, ...] = ()
) -> list[OperatorCall]:
    """Where the anchors' rows meet others', found by a swap from the same state and seed."""
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = []
    for inputs in (batch, swapped(batch, anchors)):
        model.load_state_dict(state)
        torch.manual_seed(0)
        found.append(recorded(model, inputs, watch=Watch.ROWS, anchors=anchors, hold=hold).operators)
    model.load_state_dict(state)
    return mixing(*found)
