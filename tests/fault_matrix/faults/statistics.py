"""BN106 and BN107: values in the statistics that no trained layer has."""

from __future__ import annotations

from collections.abc import Callable

from fault_matrix.carriers import CARRIERS
from fault_matrix.faults.saved_state import MEASURED, STATES
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked
from torch import Tensor, nn

from bnaudit.results import Question, Severity

STATISTICS = frozenset({Facet.STATISTICS})
Plant = Callable[[Planting], None]


def in_the_variance(value: float) -> Plant:
    """A loss that overflowed once; a converter that subtracted an epsilon."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            norm.running_var[planting.channels(norm)] = value

    return plant


def in_the_mean(value: float) -> Plant:
    """One batch with a value that is not finite."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            norm.running_mean[planting.channels(norm)] = value

    return plant


def at_epsilon(factor: float) -> Plant:
    """A variance of so many epsilons of 1e-5."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            norm.eps = 1e-5
            norm.running_var[planting.channels(norm)] = factor * 1e-5

    return plant


def at_the_usual_largest_epsilon(planting: Planting) -> None:
    """-0.001 is below every usual epsilon, so that no file need say which one holds."""
    for norm in planting.modules:
        norm.eps = 1e-5
        norm.running_var[planting.channels(norm)] = -1.001e-3


def swapped(planting: Planting) -> None:
    """Mean and variance in each other's place; one mean is clearly negative."""
    for norm in planting.modules:
        norm.running_mean[0] = -0.5
        mean = norm.running_mean.clone()
        norm.running_mean.copy_(norm.running_var)
        norm.running_var.copy_(mean)


def cancelled(planting: Planting) -> None:
    """E[x²] - E[x]² in float32, where the mean is 1000 and the deviation 0.1."""
    for norm in planting.modules:
        channels = planting.channels(norm)
        norm.running_mean[channels] = 1000.0
        norm.running_var[channels] = -0.0625


def zero_with_epsilon_zero(planting: Planting) -> None:
    """A dead channel, and no epsilon to divide by."""
    for norm in planting.modules:
        norm.eps = 0.0
        norm.running_var[planting.channels(norm)] = 0.0


def other_norms(net: nn.Module) -> list[str]:
    """Norms that keep statistics and are no batch norm of PyTorch's: frozen classes, instance norm with tracking."""
    kept = [name for name, module in net.named_modules() if isinstance(getattr(module, "running_var", None), Tensor)]
    return [name for name in kept if name not in tracked(net)]


def frozen_norms(net: nn.Module) -> list[str]:
    """Those of them that no operator stands for."""
    return [name for name in other_norms(net) if "Instance" not in type(net.get_submodule(name)).__name__]


_EVERYWHERE = (Scope.ALL, Scope.ONE, Scope.CHANNEL)
_NON_FINITE = [
    *(
        Fault(name, "BN106", plant, Severity.ERROR, Question.BUFFERS, scope, needs=STATISTICS, also=MEASURED)
        for name, plant, scopes in (
            ("NaN in the variance", in_the_variance(float("nan")), _EVERYWHERE),
            ("NaN in the mean", in_the_mean(float("nan")), _EVERYWHERE),
            ("inf in the variance", in_the_variance(float("inf")), (Scope.ONE, Scope.CHANNEL)),
            ("-inf in the mean", in_the_mean(float("-inf")), (Scope.CHANNEL,)),
        )
        for scope in scopes
    ),
    Fault("3e38 in the variance", "BN106", in_the_variance(3e38), None, also=MEASURED, unnoted=True),
]
_NEGATIVE = [
    *(
        Fault(name, "BN107", plant, Severity.ERROR, Question.BUFFERS, scope, needs=STATISTICS, also=MEASURED)
        for name, plant, scopes in (
            ("variance of -0.5", in_the_variance(-0.5), _EVERYWHERE),
            ("variance of -0.001001", at_the_usual_largest_epsilon, (Scope.CHANNEL,)),
            ("mean and variance swapped", swapped, (Scope.ALL, Scope.ONE)),
            ("variance cancelled", cancelled, (Scope.CHANNEL,)),
        )
        for scope in scopes
    ),
    *(
        Fault(
            "variance of -1.001 epsilon",
            "BN107",
            at_epsilon(-1.001),
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            needs=STATISTICS,
            also=MEASURED,
            severity_in=dict.fromkeys(STATES, Severity.WARNING),  # epsilon is not in it: medium confidence
        )
        for scope in _EVERYWHERE
    ),
    *(
        Fault(name, "BN107", plant, Severity.WARNING, Question.BUFFERS, scope, needs=STATISTICS, also=MEASURED)
        for name, plant in (
            ("variance of -0.9 epsilon", at_epsilon(-0.9)),
            ("variance of -1e-12", in_the_variance(-1e-12)),
        )
        for scope in (Scope.ONE, Scope.CHANNEL)
    ),
    Fault(
        "variance 0 with epsilon 0",
        "BN107",
        zero_with_epsilon_zero,
        Severity.ERROR,
        Question.BUFFERS,
        Scope.CHANNEL,
        needs=STATISTICS | {Facet.EPSILON},
        # An epsilon of 0 is aloud for itself.
        also=(*MEASURED, "BN209"),
        # A state dict holds a dead channel, which is healthy: epsilon is a matter of the code.
        gone=dict.fromkeys(STATES, "a variance of 0 is a dead channel, and epsilon is in the code"),
    ),
    *(
        Fault(name, "BN107", plant, None, scope=scope, also=MEASURED, unnoted=True)
        for name, plant, scope in (
            ("variance of 0", in_the_variance(0.0), Scope.CHANNEL),
            ("variance of -0.0", in_the_variance(-0.0), Scope.CHANNEL),
            ("variance of 1e-12", in_the_variance(1e-12), Scope.ONE),
        )
    ),
]
_WRITTEN_OUT = frozenset({"ONNX", "ONNX by dynamo"})
_OTHER_NORMS = [
    *(
        Fault(
            name,
            rule,
            plant,
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            other_norms,
            needs=STATISTICS,
            also=MEASURED,
            only=frozenset(CARRIERS) - _WRITTEN_OUT - {"ONNX, folded"},
        )
        for name, rule, plant in (
            ("NaN in the variance of another norm", "BN106", in_the_variance(float("nan"))),
            ("inf in the mean of another norm", "BN106", in_the_mean(float("inf"))),
            ("variance of -0.5 in another norm", "BN107", in_the_variance(-0.5)),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    # A graph has no operator for a frozen norm: its arithmetic is written out, and not read.
    Fault(
        "NaN in the variance of a frozen norm that is written out",
        "BN118",
        in_the_variance(float("nan")),
        Severity.NOTE,
        Question.BUFFERS,
        targets=frozen_norms,
        only=_WRITTEN_OUT,
        whole=True,
        leaves_open=True,
    ),
]
FAULTS = [*_NON_FINITE, *_NEGATIVE, *_OTHER_NORMS]
