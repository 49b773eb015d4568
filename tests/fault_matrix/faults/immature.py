"""BN105: after n updates a share (1 - m)ⁿ of the statistics is what they started from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fault_matrix.faults.initial import only_norms
from fault_matrix.faults.saved_state import MEASURED, STATES, WHOLE_MODULES, set_counters
from fault_matrix.values import Facet, Fault, Planting, Scope

from bnaudit.results import Question, Severity

COUNTED = frozenset({Facet.STATISTICS, Facet.COUNTERS})
WITH_COUNTERS = STATES | WHOLE_MODULES | {"scripted", "traced", "exported"}
"""A graph has none, and cannot tell how mature its statistics are: that none is missing is still true of it."""
WITH_MOMENTUM = WITH_COUNTERS - STATES


def updates(count: int, momentum: float = 0.1) -> Callable[[Planting], None]:
    """A layer reset so many updates ago."""
    return partial(_immature, updates=count, momentum=momentum)


def least_variance(planting: Planting) -> None:
    """One channel of a constant input: all that is in its variance is the share of the initial 1."""
    _immature(planting, 28, 0.1)
    for norm in planting.modules:
        norm.running_var[0] = 0.9**28 * 1.001


def below_the_share(planting: Planting) -> None:
    """One channel of one layer has less than the share: the statistics did not start from 0 and 1."""
    _immature(planting, 28, 0.1)
    planting.modules[-1].running_var[-1] = 0.9**28 * 0.98


def measured_by_update_bn(planting: Planting) -> None:
    """Four batches of a cumulative average, which keeps nothing of the start."""
    set_counters(planting.net, 4)
    for norm in planting.modules:
        norm.running_var[0] = 0.01


def cumulative(planting: Planting) -> None:
    """momentum=None, known to be so."""
    _immature(planting, 6, 0.1)
    for norm in planting.modules:
        norm.momentum = None


def ported(planting: Planting) -> None:
    """Weights of another framework: counter 0."""
    _immature(planting, 6, 0.1)
    set_counters(planting.net, 0)


def frozen_by_momentum(planting: Planting) -> None:
    """Momentum 0: what is there was loaded."""
    _immature(planting, 6, 0.1)
    for norm in planting.modules:
        norm.momentum = 0.0


def few_forwards_of_a_fresh_model(planting: Planting) -> None:
    """Weights and biases are as they were built."""
    for norm in planting.modules:
        norm.weight.data.fill_(1.0)
        norm.bias.data.zero_()
    _immature(planting, 6, 0.1)


def _immature(planting: Planting, updates: int, momentum: float) -> None:
    """As n updates from 0 and 1 leave statistics of a population; the other layers have been trained for long."""
    share = (1.0 - momentum) ** updates
    set_counters(planting.net, 5000)
    for norm in planting.modules:
        norm.momentum = momentum
        norm.num_batches_tracked.fill_(updates)
        norm.running_mean.mul_(1.0 - share)
        norm.running_var.mul_(1.0 - share).add_(share)


_FOUND = [
    Fault(
        name,
        "BN105",
        plant,
        severity,
        Question.BUFFERS,
        scope,
        needs=COUNTED,
        also=MEASURED,
        severity_in=dict.fromkeys(STATES, Severity.WARNING),  # the momentum is not in it
        only=WITH_COUNTERS,
    )
    for name, plant, severity, scope in (
        # 0.9²⁸ = 5.2 % and 0.9²⁹ = 4.7 %; of an error 0.9⁶ = 53 % and 0.9⁷ = 48 %.
        ("28 updates", updates(28), Severity.WARNING, Scope.ALL),
        ("28 updates", updates(28), Severity.WARNING, Scope.ONE),
        ("6 updates", updates(6), Severity.ERROR, Scope.ALL),
        ("6 updates", updates(6), Severity.ERROR, Scope.ONE),
        ("7 updates", updates(7), Severity.WARNING, Scope.ONE),
        ("28 updates, one variance barely allows it", least_variance, Severity.WARNING, Scope.ONE),
    )
]
_KNOWN_MOMENTUM = [
    Fault(
        name,
        "BN105",
        plant,
        severity,
        Question.BUFFERS,
        needs=COUNTED | {Facet.MOMENTUM},
        also=MEASURED,
        # A state dict is judged by momentum 0.1: the documented limit of the rule.
        only=WITH_MOMENTUM,
    )
    for name, plant, severity in (
        # 0.99²⁹⁸ = 5.004 % and 0.99²⁹⁹ = 4.95 %; 0.99³⁰ = 74 %, one epoch of 30 batches.
        ("298 updates of a hundredth", updates(298, 0.01), Severity.WARNING),
        ("30 updates of a hundredth", updates(30, 0.01), Severity.ERROR),
    )
]
_NOT_COUNTED = Fault(
    "28 updates, uncounted",
    "BN105",
    updates(28),
    Severity.WARNING,
    needs=COUNTED,
    only=frozenset({"ONNX", "ONNX by dynamo", "ONNX, folded"}),
)
_FRESH = Fault(
    "6 updates of a fresh model",
    "BN105",
    few_forwards_of_a_fresh_model,
    Severity.NOTE,
    scope=Scope.ALL,
    targets=only_norms,
    needs=COUNTED,
    also=MEASURED,
    only=WITH_COUNTERS,
)
_SILENT = [
    Fault(name, "BN105", plant, None, scope=scope, also=MEASURED, unnoted=True, only=only)
    for name, plant, scope, only in (
        ("29 updates", updates(29), Scope.ALL, frozenset()),
        ("29 updates", updates(29), Scope.ONE, frozenset()),
        ("299 updates of a hundredth", updates(299, 0.01), Scope.ONE, frozenset()),
        ("28 updates, one variance below the share", below_the_share, Scope.ALL, frozenset()),
        ("28 updates, one variance below the share", below_the_share, Scope.ONE, frozenset()),
        ("measured by update_bn", measured_by_update_bn, Scope.ALL, frozenset()),
        ("ported", ported, Scope.ALL, frozenset()),
        # Without the momentum these two look like 6 updates, and are reported as such.
        ("cumulative", cumulative, Scope.ALL, WITH_MOMENTUM),
        ("frozen by momentum 0", frozen_by_momentum, Scope.ALL, WITH_MOMENTUM),
    )
]
FAULTS = [*_FOUND, *_KNOWN_MOMENTUM, _NOT_COUNTED, _FRESH, *_SILENT]
