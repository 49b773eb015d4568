"""An independent look at everything of a live model and its surroundings, to be compared before and after."""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


def snapshot(model: nn.Module) -> dict[str, object]:
    """Identities and bits of all that hangs on a model; equal only if nothing of it is other."""
    found: dict[str, object] = {}
    _take(model, "model", found, set())
    return found


def surroundings() -> tuple[object, ...]:
    """Random generators, and settings of torch, NumPy and the process."""
    numpy_state: Any = np.random.get_state(legacy=False)
    return (
        random.getstate(),
        repr(numpy_state),
        torch.get_rng_state().numpy().tobytes(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        np.geterr(),
        Path.cwd(),
        sys.getrecursionlimit(),
        tuple(sys.path),
        tuple(warnings.filters),
    )


def _take(value: Any, path: str, found: dict[str, object], seen: set[int]) -> None:
    if isinstance(value, (bool, int, float, str, bytes, type(None), type, torch.dtype)):
        found[path] = (type(value), repr(value))
        return
    found[path] = id(value)
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        data = value.detach()
        raw = data.contiguous().view(torch.uint8) if data.ndim else data.reshape(1).view(torch.uint8)
        grad = value.grad if value.is_leaf else None
        kept = id(grad), None if grad is None else grad.numpy().tobytes()
        found[path] = (id(value), raw.numpy().tobytes(), value.shape, value.dtype, value.requires_grad, kept)
    elif isinstance(value, np.ndarray):
        found[path] = (id(value), value.tobytes())
    elif isinstance(value, dict):
        found[path] = (id(value), [repr(key) for key in value])
        for key, item in value.items():
            _take(item, f"{path}[{key!r}]", found, seen)
    elif isinstance(value, (list, tuple)):
        found[path] = (id(value), len(value))
        for index, item in enumerate(value):
            _take(item, f"{path}[{index}]", found, seen)
    elif isinstance(value, set):
        found[path] = (id(value), sorted(map(repr, value)))
    elif hasattr(value, "__dict__"):
        _take(vars(value), f"{path}.__dict__", found, seen)
