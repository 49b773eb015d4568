"""BN111, BN112 and BN113: counters that are no count, that differ, or that do not fit the steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fault_matrix.faults.immature import WITH_COUNTERS
from fault_matrix.faults.saved_state import COUNTER, MEASURED, STATES, change, set_counters, several
from fault_matrix.values import Facet, Fault, Planting, Scope

from bnaudit.results import Question, Severity

COUNTERS = frozenset({Facet.COUNTERS})
STATE = frozenset({Facet.STATE})
Plant = Callable[[Planting], None]


def cast_to_float(planting: Planting) -> None:
    """Every tensor of the file was cast: the number is whole, but no count any more."""
    change(planting, COUNTER, torch.Tensor.float)


def averaged(planting: Planting) -> None:
    """The mean of three files' counters."""
    change(planting, COUNTER, lambda counter: torch.tensor(1001 + 1 / 3, dtype=torch.float64))


def overflowed(planting: Planting) -> None:
    """92385 in float16, whose largest number is 65504."""
    change(planting, COUNTER, lambda counter: torch.tensor(92385).half())


def per_device(planting: Planting) -> None:
    """Gathered from two devices and not reduced."""
    change(planting, COUNTER, lambda counter: counter.repeat(2))


def negative(planting: Planting) -> None:
    """Subtracted once too often."""
    for norm in planting.modules:
        norm.num_batches_tracked.fill_(-1)


def in_32_bits(planting: Planting) -> None:
    """A narrower whole number is a count."""
    change(planting, COUNTER, torch.Tensor.int)


def at_zero(planting: Planting) -> None:
    """So are 0 and a very large one."""
    set_counters(planting.net, 0)


def very_large(planting: Planting) -> None:
    """10¹² batches."""
    set_counters(planting.net, 10**12)


def counted_twice(planting: Planting) -> None:
    """Activation checkpointing of one block."""
    _all_but(planting, 100, 200)


def counted_once_more(planting: Planting) -> None:
    """One stray forward through a part of the model."""
    _all_but(planting, 100, 101)


def evenly_counted(planting: Planting) -> None:
    """All the same."""
    set_counters(planting.net, 100)


def one_never_ran(planting: Planting) -> None:
    """A layer as it was built is another rule's matter."""
    set_counters(planting.net, 100)
    for norm in planting.modules:
        norm.reset_parameters()


def against_steps(counter: int, steps: int) -> Plant:
    """Counters of all layers beside the `global_step` of a trainer."""

    def plant(planting: Planting) -> None:
        set_counters(planting.net, counter)
        planting.beside["global_step"] = steps

    return plant


def against_the_optimizer(counter: int, steps: int) -> Plant:
    """The same beside the steps that an optimizer keeps for every parameter."""

    def plant(planting: Planting) -> None:
        set_counters(planting.net, counter)
        parameters = list(planting.net.parameters())
        optimizer = torch.optim.Adam(parameters)
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        planting.beside["optimizer"] = saved = optimizer.state_dict()
        for kept in saved["state"].values():
            kept["step"].fill_(steps)

    return plant


def uneven_against_steps(planting: Planting) -> None:
    """One layer is not at twice the steps: the other rule's matter."""
    _all_but(planting, 2000, 1000)
    planting.beside["global_step"] = 1000


def _all_but(planting: Planting, common: int, damaged: int) -> None:
    set_counters(planting.net, common)
    for norm in planting.modules:
        norm.num_batches_tracked.fill_(damaged)


_CORRUPT = [
    *(
        Fault(name, "BN111", plant, Severity.WARNING, Question.BUFFERS, scope, needs=STATE, only=STATES)
        for name, plant in (
            ("counter cast to float", cast_to_float),
            ("counter averaged", averaged),
            ("counter overflowed in float16", overflowed),
            ("counter of two devices", per_device),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault("counter of -1", "BN111", negative, Severity.WARNING, Question.BUFFERS, scope, only=WITH_COUNTERS)
        for scope in (Scope.ALL, Scope.ONE)
    ),
    Fault("counter in 32 bits", "BN111", in_32_bits, None, unnoted=True, only=STATES),
    Fault("counter of 0", "BN111", at_zero, None, scope=Scope.ALL, unnoted=True),
    Fault("counter of 10¹²", "BN111", very_large, None, scope=Scope.ALL, unnoted=True),
]
_UNEVEN = [
    *(
        Fault(name, "BN112", plant, Severity.NOTE, targets=several, needs=COUNTERS, whole=True)
        for name, plant in (("counted twice", counted_twice), ("counted once more", counted_once_more))
    ),
    Fault("evenly counted", "BN112", evenly_counted, None, scope=Scope.ALL, targets=several, unnoted=True),
    Fault("one never ran", "BN112", one_never_ran, None, targets=several, also=("BN103", *MEASURED), unnoted=True),
]
_BESIDE = COUNTERS | {Facet.BESIDE}
_NESTED = frozenset({"nested checkpoint"})
_AGAINST_STEPS = [
    *(
        Fault(
            f"{counter} batches in {steps} steps",
            "BN113",
            against_steps(counter, steps),
            Severity.NOTE,
            scope=Scope.ALL,
            needs=_BESIDE,
            whole=True,
            # Beside nothing the counters are any model's; one other carrier shows that it stays silent.
            only=_NESTED | {"state dict"},
        )
        # At most 1 % from a whole number, from 26 on a quarter of a batch, up to 64.
        for counter, steps in ((2000, 1000), (2019, 1000), (1981, 1000), (64_000, 1000), (26_240, 1000), (1000, 2000))
    ),
    Fault(
        "2000 batches in the optimizer's 1000 steps",
        "BN113",
        against_the_optimizer(2000, 1000),
        Severity.NOTE,
        scope=Scope.ALL,
        needs=_BESIDE,
        whole=True,
        only=_NESTED,
    ),
    *(
        Fault(
            f"{counter} batches in {steps} steps",
            "BN113",
            against_steps(counter, steps),
            None,
            scope=Scope.ALL,
            unnoted=True,
            only=_NESTED,
        )
        for counter, steps in (
            (1000, 1000),
            (1250, 1000),
            (2021, 1000),
            (1979, 1000),
            (65_000, 1000),
            (26_260, 1000),
            (1000, 1250),
        )
    ),
    Fault(
        "unevenly twice the steps",
        "BN113",
        uneven_against_steps,
        None,
        targets=several,
        unnoted=True,
        only=_NESTED,
    ),
]
FAULTS = [*_CORRUPT, *_UNEVEN, *_AGAINST_STEPS]
