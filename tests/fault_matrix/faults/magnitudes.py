"""BN108 and BN109: channels that need the exact epsilon, and numbers that half precision does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fault_matrix.faults.saved_state import MEASURED, STATES, change_all, several
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked
from torch import nn

from bnaudit.results import Severity

STATISTICS = frozenset({Facet.STATISTICS})
EPSILON = frozenset({Facet.STATISTICS, Facet.EPSILON})
GRAPHS = frozenset({"ONNX", "ONNX by dynamo"})
Plant = Callable[[Planting], None]


def second_epsilon(variance: float) -> Plant:
    """One layer has 1e-3 and the others 1e-5: a gain changes by more than 10 % below a variance of 0.0047."""

    def plant(planting: Planting) -> None:
        for norm in _norms(planting):
            norm.eps = 1e-5
            norm.running_var.clamp_(min=0.0048)
        for norm in planting.modules:
            norm.eps = 1e-3
            norm.running_var[0] = variance

    return plant


def other_than_the_producers(variance: float) -> Plant:
    """All layers have 1e-3, and the framework that wrote the graph has 1e-5."""

    def plant(planting: Planting) -> None:
        for norm in _norms(planting):
            norm.eps = 1e-3
            norm.running_var.clamp_(min=0.0048)
        for norm in planting.modules:
            norm.running_var[0] = variance

    return plant


def small_variances(planting: Planting) -> None:
    """9 of 11 published healthy checkpoints have such channels; no second epsilon is in evidence."""
    for norm in _norms(planting):
        norm.eps = 1e-5
        norm.running_var[0] = 1e-4


def mean_of(value: float) -> Plant:
    """Beside a variance of 1 and a weight of 0.5, so that the shift is half of it."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            _plain(norm)
            norm.running_mean[-1] = value

    return plant


def variance_of(value: float) -> Plant:
    """Beside variances of 10: under 10⁴ times the median."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            _plain(norm)
            norm.running_var.fill_(10.0)
            norm.running_var[-1] = value

    return plant


def gain_of(value: float) -> Plant:
    """The weight over the root of 1 + epsilon."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            _plain(norm)
            norm.eps = 1e-5
            norm.weight.data[-1] = value * 1.00001**0.5

    return plant


def shift_of(value: float) -> Plant:
    """A bias beside a mean of 0."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            _plain(norm)
            norm.bias.data[-1] = value

    return plant


def runaway(ratio: float) -> Plant:
    """One live channel, its variance so many times the median of the live ones."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            _plain(norm)
            norm.running_var[0] = ratio

    return plant


def runaway_in_half(ratio: float) -> Plant:
    """The same in a file that is half precision throughout."""

    def plant(planting: Planting) -> None:
        runaway(ratio)(planting)
        change_all(planting, lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    return plant


def vanishing(variance: float) -> Plant:
    """A live variance that float16 rounds to 0, where an epsilon of 1e-8 does not cover it."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            norm.eps = 1e-8
            norm.running_var[0] = variance

    return plant


def dead_channel(planting: Planting) -> None:
    """Below epsilon: rounding it to 0 changes nothing."""
    for norm in planting.modules:
        _plain(norm)
        norm.eps = 1e-5
        norm.running_var[0] = 1e-9


def _plain(norm: Any) -> None:
    """Mean 0, variance 1, weight 0.5: all far from any limit, so that one channel can be put to it."""
    norm.running_mean.zero_()
    norm.running_var.fill_(1.0)
    norm.running_mean[0] = 0.25  # a mean that is exactly 0 is another rule's matter
    if norm.affine:
        norm.weight.data.fill_(0.5)
        norm.bias.data.fill_(0.1)


def _norms(planting: Planting) -> list[Any]:
    return [planting.net.get_submodule(name) for name in tracked(planting.net)]


def wide(net: nn.Module) -> list[str]:
    """Norms with at least four channels: three that are usual beside the one that is not."""
    return [name for name in tracked(net) if net.get_submodule(name).num_features >= 4]


def wide_with_weights(net: nn.Module) -> list[str]:
    """Those of them that have weight and bias."""
    return [name for name in wide(net) if net.get_submodule(name).affine]


_EPSILONS = [
    *(
        Fault(
            f"a second epsilon, variance {variance}",
            "BN108",
            second_epsilon(variance),
            Severity.NOTE,
            targets=several,
            needs=EPSILON,
            also=MEASURED,
            whole=True,
        )
        for variance in (1e-4, 0.0046)
    ),
    Fault(
        "a second epsilon, variance 0.0048",
        "BN108",
        second_epsilon(0.0048),
        None,
        targets=several,
        also=MEASURED,
        unnoted=True,
    ),
    Fault(
        "not the producer's epsilon, variance 0.0046",
        "BN108",
        other_than_the_producers(0.0046),
        Severity.NOTE,
        needs=EPSILON,
        only=GRAPHS,
        whole=True,
    ),
    Fault(
        "not the producer's epsilon, variance 0.0048",
        "BN108",
        other_than_the_producers(0.0048),
        None,
        only=GRAPHS,
        unnoted=True,
    ),
    Fault("small variances", "BN108", small_variances, None, scope=Scope.ALL, also=MEASURED, unnoted=True),
]
_FOUND = [
    Fault(name, "BN109", plant, Severity.NOTE, scope=scope, targets=targets, needs=STATISTICS, also=MEASURED)
    for name, plant, scope, targets in (
        ("mean of 65505", mean_of(65505.0), Scope.ONE, wide),
        ("variance of 65505", variance_of(65505.0), Scope.ALL, wide),
        ("gain of 65505", gain_of(65505.0), Scope.ONE, wide_with_weights),
        ("shift of 65505", shift_of(65505.0), Scope.ONE, wide_with_weights),
        ("10050 times the median", runaway(10050.0), Scope.ONE, wide),
        ("10050 times the median", runaway(10050.0), Scope.ALL, wide),
    )
]
_SILENT = [
    Fault(name, "BN109", plant, None, scope=scope, targets=targets, also=MEASURED, unnoted=True)
    for name, plant, scope, targets in (
        ("mean of 65503", mean_of(65503.0), Scope.ONE, wide),
        ("variance of 65503", variance_of(65503.0), Scope.ONE, wide),
        ("gain of 65503", gain_of(65503.0), Scope.ONE, wide_with_weights),
        ("shift of 65503", shift_of(65503.0), Scope.ONE, wide_with_weights),
        ("9950 times the median", runaway(9950.0), Scope.ALL, wide),
        ("dead channel", dead_channel, Scope.ONE, wide),
    )
]
_HALF = [
    Fault(
        "10048 times the median in float16",
        "BN109",
        runaway_in_half(10048.0),
        Severity.WARNING,
        targets=wide,
        needs=frozenset({Facet.STATE}),
        only=STATES,
    ),
    Fault(
        "9952 times the median in float16",
        "BN109",
        runaway_in_half(9952.0),
        None,
        targets=wide,
        only=STATES,
        unnoted=True,
    ),
]
_VANISHING = [
    Fault("variance of 5.9e-8", "BN109", vanishing(5.9e-8), Severity.NOTE, targets=wide, needs=EPSILON, also=MEASURED),
    Fault("variance of 6.1e-8", "BN109", vanishing(6.1e-8), None, targets=wide, also=MEASURED, unnoted=True),
]
FAULTS = [*_EPSILONS, *_FOUND, *_SILENT, *_HALF, *_VANISHING]
