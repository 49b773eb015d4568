"""What a carrier does when it is run directly: the oracle that a planted defect is there, and a control has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from run_time.run_carriers import call
from run_time.subjects_of_runs import Inputs
from torch import nn

ANCHORS = (0, 7, 15)
SIZE = 16


def _rows(inputs: Inputs, first: int, count: int) -> Inputs:
    return tuple(value[first : first + count].clone() for value in inputs)


def base(inputs: Inputs) -> Inputs:
    """The first 16 samples."""
    return _rows(inputs, 0, SIZE)


def swapped(inputs: Inputs) -> Inputs:
    """The anchors of `base` with other companions."""
    others = _rows(inputs, SIZE, SIZE)
    for value, old in zip(others, base(inputs), strict=True):
        value[list(ANCHORS)] = old[list(ANCHORS)]
    return others


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference in units of the largest value."""
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))


def swap(carrier: str, given: nn.Module | Path, inputs: Inputs) -> float:
    """How far other companions move the anchors, random generators reset."""
    rows = list(ANCHORS)
    torch.manual_seed(0)
    first = call(carrier, given)(*base(inputs))[rows]
    torch.manual_seed(0)
    return apart(first, call(carrier, given)(*swapped(inputs))[rows])


def repeat(carrier: str, given: nn.Module | Path, inputs: Inputs) -> float:
    """How far the same batch is from itself; graphs keep one session, since a new one draws the same numbers."""
    if carrier.startswith("onnx"):
        return history(carrier, given, inputs)
    return apart(call(carrier, given)(*base(inputs)), call(carrier, given)(*base(inputs)))


def history(carrier: str, given: nn.Module | Path, inputs: Inputs) -> float:
    """How far the same batch is from itself when it runs again, the state not restored."""
    run = call(carrier, given)
    first = run(*base(inputs))
    return apart(first, run(*base(inputs)))


def one(carrier: str, given: nn.Module | Path, inputs: Inputs) -> float:
    """How far a batch of one is from its row in a larger one; inf when it raises or loses its axis."""
    row = call(carrier, given)(*base(inputs))[7:8]
    try:
        alone = call(carrier, given)(*_rows(inputs, 7, 1))
    except (ValueError, RuntimeError, torch.jit.Error):
        return float("inf")
    return apart(row, alone) if alone.shape == row.shape else float("inf")


def rows(carrier: str, given: nn.Module | Path, inputs: Inputs) -> float:
    """How far equal rows of one batch are apart."""
    same = tuple(value[:1].repeat(SIZE, *[1] * (value.ndim - 1)) for value in inputs)
    out = call(carrier, given)(*same)
    return apart(out[:1], out[-1:])


SYMPTOMS: dict[str, Callable[[str, nn.Module | Path, Inputs], float]] = {
    "swap": swap,
    "repeat": repeat,
    "history": history,
    "one": one,
    "rows": rows,
}
