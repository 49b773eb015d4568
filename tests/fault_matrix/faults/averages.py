"""BN117, and BN101 beside it: averaged weights in the same file, with statistics that are not theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fault_matrix.faults.initial import all_trained
from fault_matrix.faults.saved_state import COUNTER, STATES, STATISTICS, all_with_weights, set_counters
from fault_matrix.faults.statistics import other_norms
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked, with_trained_affines
from torch import nn

from bnaudit.results import Question, Severity

Plant = Callable[[Planting], None]
Edit = Callable[[Planting, dict[str, Any]], None]
BESIDE = frozenset({Facet.STATE, Facet.BESIDE})
NESTED = frozenset({"nested checkpoint"})


def beside(edit: Edit, key: str = "model_ema") -> Plant:
    """The averaged state dict under a key of its own in the checkpoint."""

    def plant(planting: Planting) -> None:
        set_counters(planting.net, 5000)
        planting.beside[key] = _averaged(planting, edit)

    return plant


def in_one_dict(edit: Edit, prefix: str = "ema.") -> Plant:
    """The averaged tensors in the same state dict, under names with a prefix."""

    def plant(planting: Planting) -> None:
        set_counters(planting.net, 5000)
        averaged = {prefix + name: value for name, value in _averaged(planting, edit).items()}
        planting.state_edits.append(lambda state: state.update(averaged))
        planting.located = tuple(prefix + layer for layer in planting.layers)

    return plant


def as_averaged_model(edit: Edit) -> Plant:
    """The state dict of torch.optim.swa_utils.AveragedModel, known by `n_averaged`."""

    def plant(planting: Planting) -> None:
        set_counters(planting.net, 5000)
        averaged = {f"module.{name}": value for name, value in _averaged(planting, edit).items()}
        planting.beside["second"] = {"n_averaged": torch.tensor(300), **averaged}

    return plant


def initial(planting: Planting, averaged: dict[str, Any]) -> None:
    """An average over parameters only."""
    for layer in planting.layers:
        averaged[f"{layer}.running_mean"].zero_()
        averaged[f"{layer}.running_var"].fill_(1.0)


def lagging(share: float) -> Edit:
    """An average over everything that still holds a share of the initial values."""

    def edit(planting: Planting, averaged: dict[str, Any]) -> None:
        for layer in planting.layers:
            averaged[f"{layer}.running_mean"].mul_(1.0 - share)
            averaged[f"{layer}.running_var"].mul_(1.0 - share).add_(share)

    return edit


def snapshot(deviations: float, factor: float, counter: int) -> Edit:
    """Statistics of long ago: means and variances away from the raw ones, and a counter that stopped."""

    def edit(planting: Planting, averaged: dict[str, Any]) -> None:
        for layer in planting.layers:
            deviation = averaged[f"{layer}.running_var"].sqrt()
            averaged[f"{layer}.running_mean"].add_(deviations * deviation)
            averaged[f"{layer}.running_var"].mul_(factor)
            averaged[f"{layer}.{COUNTER}"].fill_(counter)

    return edit


def copied(apart: float) -> Edit:
    """The raw statistics beside weights and biases that are this much away (relative L2)."""

    def edit(planting: Planting, averaged: dict[str, Any]) -> None:
        for layer in (*planting.layers, *other_norms(planting.net)):  # the distance is that of all together
            for entry in ("weight", "bias"):
                if (name := f"{layer}.{entry}") in averaged:
                    averaged[name].mul_(1.0 + apart)

    return edit


def parameters_alone(planting: Planting, averaged: dict[str, Any]) -> None:
    """A shadow of the parameters: its statistics stand in the raw part."""
    for layer in planting.layers:
        for entry in (*STATISTICS, COUNTER):
            del averaged[f"{layer}.{entry}"]


def measured_again(planting: Planting, averaged: dict[str, Any]) -> None:
    """Weights far apart, and statistics that were measured with them."""
    copied(0.2)(planting, averaged)
    for layer in (*planting.layers, *other_norms(planting.net)):
        averaged[f"{layer}.running_mean"].mul_(1.1)
        averaged[f"{layer}.running_var"].mul_(1.2)


def untouched(planting: Planting, averaged: dict[str, Any]) -> None:
    """A copy."""


def _averaged(planting: Planting, edit: Edit) -> dict[str, Any]:
    averaged = {name: value.clone() for name, value in planting.net.state_dict().items()}
    edit(planting, averaged)
    return averaged


def wide(net: nn.Module) -> list[str]:
    """Norms with enough live channels to fit a share to."""
    return [name for name in tracked(net) if int((net.get_submodule(name).running_var > 1e-4).sum()) >= 4]


def all_wide(net: nn.Module) -> list[str]:
    """All norms, where each has them."""
    return tracked(net) if wide(net) == tracked(net) else []


_INITIAL = [
    *(
        Fault(
            f"averaged statistics initial under {key}",
            "BN117",
            beside(initial, key),
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            all_trained if scope is Scope.ALL else with_trained_affines,
            needs=BESIDE,
            only=NESTED,
        )
        for key, scope in (
            ("model_ema", Scope.ALL),
            ("model_ema", Scope.ONE),
            ("state_dict_ema", Scope.ALL),
            ("ema_state_dict", Scope.ALL),
            ("ema", Scope.ALL),
            ("swa_model", Scope.ALL),
            ("averagedModel", Scope.ONE),
        )
    ),
    Fault(
        "averaged statistics initial in an AveragedModel",
        "BN117",
        as_averaged_model(initial),
        Severity.ERROR,
        Question.BUFFERS,
        Scope.ALL,
        all_trained,
        needs=BESIDE,
        only=NESTED,
    ),
    *(
        Fault(
            "averaged statistics initial in the same dict",
            "BN117",
            in_one_dict(initial),
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            all_trained if scope is Scope.ALL else with_trained_affines,
            needs=frozenset({Facet.STATE}),
            only=STATES,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
]
_STALE = [
    Fault(
        name,
        "BN117",
        beside(edit),
        Severity.WARNING,
        Question.BUFFERS,
        scope,
        all_wide if scope is Scope.ALL else wide,
        needs=BESIDE,
        only=NESTED,
    )
    for name, edit, scope in (
        ("averaged statistics 90 % initial", lagging(0.9), Scope.ALL),
        ("averaged statistics 5.1 % initial", lagging(0.051), Scope.ALL),
        ("averaged statistics 5.1 % initial", lagging(0.051), Scope.ONE),
        ("averaged means 0.51 deviations ago", snapshot(0.51, 1.0, 2499), Scope.ONE),
        ("averaged variances a factor of 2.1 ago", snapshot(0.0, 2.1, 2499), Scope.ALL),
    )
]
_COPIED = [
    Fault(
        "averaged weights 5.1 % apart, statistics copied",
        "BN117",
        beside(copied(0.051)),
        Severity.WARNING,
        Question.BUFFERS,
        Scope.ALL,
        all_with_weights,
        needs=BESIDE,
        only=NESTED,
        whole=True,
    ),
    Fault(
        "averaged weights 4.9 % apart, statistics copied",
        "BN117",
        beside(copied(0.049)),
        Severity.NOTE,
        scope=Scope.ALL,
        targets=all_with_weights,
        needs=BESIDE,
        only=NESTED,
        whole=True,
    ),
]
_SHADOW = Fault(
    "averaged parameters alone",
    "BN101",
    beside(parameters_alone),
    Severity.NOTE,
    Question.BUFFERS,
    Scope.ALL,
    all_with_weights,
    needs=BESIDE,
    only=NESTED,
    whole=True,
    leaves_open=True,
)
_SILENT = [
    Fault(name, "BN117", beside(edit), None, scope=Scope.ALL, targets=all_wide, unnoted=True, only=NESTED)
    for name, edit in (
        ("averaged statistics 4.9 % initial", lagging(0.049)),
        ("averaged means 0.49 deviations ago", snapshot(0.49, 1.0, 2499)),
        ("averaged variances a factor of 1.9 ago", snapshot(0.0, 1.9, 2499)),
        ("averaged means 0.6 deviations away, counted half as often", snapshot(0.6, 1.0, 2500)),
        ("averaged statistics measured again", measured_again),
        ("averaged weights as they are", untouched),
    )
]
FAULTS = [*_INITIAL, *_STALE, *_COPIED, _SHADOW, *_SILENT]
