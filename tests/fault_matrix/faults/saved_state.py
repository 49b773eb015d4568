"""How the faults change what is saved of a net: entries of its state dict, named by layer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from fault_matrix.values import Planting, tracked
from torch import nn

PICKLED_STATES = frozenset({"state dict", "nested checkpoint", "legacy"})
"""The carriers of a state dict that can hold any object, and the versions of its classes."""
STATES = PICKLED_STATES | {"safetensors"}
WHOLE_MODULES = frozenset({"pickled module", "live module"})
IN_PYTHON = STATES | WHOLE_MODULES
"""Their forward() is the user's own code, whatever it does."""
STATISTICS = ("running_mean", "running_var")
COUNTER = "num_batches_tracked"
MEASURED = ("BN403", "BN404")
"""What a run with inputs adds of statistics that do not fit: a live module is always run."""


def drop(planting: Planting, *entries: str) -> None:
    """Leave these entries of the damaged layers out of the state dict."""

    def dropping(state: dict[str, Any]) -> None:
        for layer in planting.layers:
            for entry in entries:
                state.pop(_key(layer, entry), None)

    planting.state_edits.append(dropping)


def change(planting: Planting, entry: str, changed: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Put another tensor in the place of this entry of the damaged layers."""

    def changing(state: dict[str, Any]) -> None:
        for layer in planting.layers:
            state[_key(layer, entry)] = changed(state[_key(layer, entry)])

    planting.state_edits.append(changing)


def change_all(planting: Planting, changed: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Put another tensor in the place of every entry."""

    def changing(state: dict[str, Any]) -> None:
        for key, tensor in state.items():
            state[key] = changed(tensor)

    planting.state_edits.append(changing)


def forget_versions(planting: Planting) -> None:
    """Save a plain dict: a copy such as `dict(state)`, or what a converter writes."""

    def forgetting(state: Any) -> None:
        if hasattr(state, "_metadata"):
            del state._metadata

    planting.state_edits.append(forgetting)


def with_siblings(net: nn.Module) -> list[str]:
    """Norms with weight and bias to which another stands at the same place of a sibling block."""
    return [name for name in with_affine(net) if sum(_place(other) == _place(name) for other in tracked(net)) > 1]


def without_siblings(net: nn.Module) -> list[str]:
    """The other norms with weight and bias of a net that has at least two norms."""
    names = tracked(net)
    alone = set(with_affine(net)) - set(with_siblings(net))
    return [name for name in names if name in alone] if len(names) > 1 else []


def named_like_others(net: nn.Module) -> list[str]:
    """Norms with weight and bias whose names differ from another's in numbers alone, or that are called bn."""
    names = [_without_numbers(name) for name in tracked(net)]
    return [name for name in with_affine(net) if names.count(_without_numbers(name)) > 1 or "bn" in name]


def several(net: nn.Module) -> list[str]:
    """All tracked norms of a net that has at least two."""
    names = tracked(net)
    return names if len(names) > 1 else []


def all_with_weights(net: nn.Module) -> list[str]:
    """All tracked norms of a net in which each has weight and bias: without them, nothing is left of a layer."""
    names = tracked(net)
    return names if names == with_affine(net) else []


def set_counters(net: nn.Module, count: int) -> None:
    """The same counter in every layer that has one."""
    for module in net.modules():
        if isinstance(getattr(module, COUNTER, None), torch.Tensor):
            module.num_batches_tracked.fill_(count)


def with_affine(net: nn.Module) -> list[str]:
    """All tracked norms with weight and bias."""
    return [name for name in tracked(net) if net.get_submodule(name).weight is not None]


def _place(name: str) -> str:
    """`layer1.0.bn1` and `layer4.2.bn1` -> `layer#.#.bn1`."""
    return re.sub(r"\d+\.", "#.", name)


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _key(layer: str, entry: str) -> str:
    return f"{layer}.{entry}" if layer else entry
