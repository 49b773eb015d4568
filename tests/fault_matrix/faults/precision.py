"""BN110: statistics that are stored in half precision, or went through it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fault_matrix.faults.saved_state import STATES, STATISTICS, change, change_all
from fault_matrix.faults.statistics import frozen_norms
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked
from torch import nn

from bnaudit.results import Question, Severity

STATE = frozenset({Facet.STATE})
Plant = Callable[[Planting], None]
_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


def statistics_in(precision: torch.dtype) -> Plant:
    """Buffers were cast and parameters were not."""

    def plant(planting: Planting) -> None:
        for entry in STATISTICS:
            change(planting, entry, lambda tensor: tensor.to(precision))

    return plant


def variance_in_half(planting: Planting) -> None:
    """One of the two."""
    change(planting, "running_var", torch.Tensor.half)


def statistics_of_the_module_in_half(planting: Planting) -> None:
    """The same in the module itself."""
    for norm in planting.modules:
        norm.running_mean, norm.running_var = norm.running_mean.half(), norm.running_var.half()


def all_in(precision: torch.dtype) -> Plant:
    """Converted for inference: every floating tensor."""

    def plant(planting: Planting) -> None:
        change_all(planting, lambda tensor: tensor.to(precision) if tensor.is_floating_point() else tensor)
        planting.also_at = tuple(frozen_norms(planting.net))

    return plant


def all_in_training(precision: torch.dtype) -> Plant:
    """The same with an optimizer beside it, which marks training."""

    def plant(planting: Planting) -> None:
        all_in(precision)(planting)
        optimizer = torch.optim.SGD(planting.net.parameters(), lr=0.1, momentum=0.9)
        for parameter in planting.net.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        planting.beside["optimizer"] = optimizer.state_dict()

    return plant


def whole_net_in_half(planting: Planting) -> None:
    """`net.half()`, written into any carrier."""
    planting.net.half()
    planting.also_at = tuple(frozen_norms(planting.net))
    planting.inputs = tuple(value.half() if value.is_floating_point() else value for value in planting.inputs)


def through(precision: torch.dtype) -> Plant:
    """To half precision and back: every value lies on its grid."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            _round(norm, precision)

    return plant


def through_but_one_value(planting: Planting) -> None:
    """One value is a step of float32 beside the grid."""
    for norm in planting.modules:
        _round(norm, torch.float16)
        norm.running_var[-1] = torch.nextafter(norm.running_var[-1], torch.tensor(torch.inf))


def few_values(planting: Planting) -> None:
    """Initial values and small whole numbers lie on every grid."""
    for norm in planting.modules:
        norm.running_mean.copy_(torch.arange(norm.num_features) % 3 + 1.0)
        norm.running_var.copy_(torch.arange(norm.num_features) % 4 + 1.0)


def _round(norm: nn.BatchNorm2d, precision: torch.dtype) -> None:
    for entry in STATISTICS:
        buffer = norm.get_buffer(entry)
        buffer.copy_(buffer.to(precision).float())


def wide(net: nn.Module) -> list[str]:
    """Norms with eight channels or more: with fewer values chance is not ruled out."""
    return [name for name in tracked(net) if net.get_submodule(name).num_features >= 8]


_BESIDE_WIDER = [
    *(
        Fault(name, "BN110", plant, Severity.WARNING, Question.BUFFERS, scope, needs=STATE, only=STATES)
        for name, plant in (
            ("statistics in float16", statistics_in(torch.float16)),
            ("statistics in bfloat16", statistics_in(torch.bfloat16)),
            ("variance in float16", variance_in_half),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    Fault(
        "the module's statistics in float16",
        "BN110",
        statistics_of_the_module_in_half,
        Severity.WARNING,
        Question.BUFFERS,
        only=frozenset({"pickled module"}),
    ),
]
_TRAINING = [
    Fault(
        f"all in {_NAMES[precision]}, an optimizer beside",
        "BN110",
        all_in_training(precision),
        Severity.WARNING,
        Question.BUFFERS,
        Scope.ALL,
        needs=STATE | {Facet.BESIDE},
        # Without the optimizer nothing marks training: a file for inference, and a note.
        gone=dict.fromkeys(STATES - {"nested checkpoint"}, "nothing marks training: a file for inference"),
        only=STATES,
    )
    for precision in _NAMES
]
_ALL = [
    *(
        Fault(
            f"all in {_NAMES[precision]}",
            "BN110",
            all_in(precision),
            Severity.NOTE,
            scope=Scope.ALL,
            needs=STATE,
            only=STATES,
        )
        for precision in _NAMES
    ),
    Fault(
        "the whole net in float16",
        "BN110",
        whole_net_in_half,
        Severity.NOTE,
        scope=Scope.ALL,
        needs=frozenset({Facet.STATISTICS}),
    ),
]
_ROUND_TRIPS = [
    *(
        Fault(
            f"statistics through {_NAMES[precision]}",
            "BN110",
            through(precision),
            Severity.NOTE,
            scope=scope,
            targets=wide,
            needs=frozenset({Facet.STATISTICS}),
        )
        for precision in _NAMES
        for scope in (Scope.ALL, Scope.ONE)
    ),
    Fault("through float16 but one value", "BN110", through_but_one_value, None, targets=wide, unnoted=True),
    Fault("few values", "BN110", few_values, None, targets=wide, also=("BN403", "BN404"), unnoted=True),
]
FAULTS = [*_BESIDE_WIDER, *_TRAINING, *_ALL, *_ROUND_TRIPS]
