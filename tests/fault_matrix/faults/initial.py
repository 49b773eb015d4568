"""BN103 and BN104: statistics that are those of a layer which never saw data."""

from __future__ import annotations

import torch
from fault_matrix.carriers import CARRIERS
from fault_matrix.faults.saved_state import MEASURED, STATES, forget_versions, several
from fault_matrix.values import Facet, Fault, Planting, Scope, with_trained_affines
from torch import nn

from bnaudit.results import Question, Severity

STATISTICS = frozenset({Facet.STATISTICS})
COUNTED = frozenset({Facet.STATISTICS, Facet.COUNTERS})
NAMED = frozenset(name for name, carrier in CARRIERS.items() if carrier.holds(Facet.NAMES))
"""Where folding leaves one norm of many, it is that of a net with one norm."""


def reset_and_counted(planting: Planting) -> None:
    """Forwarded, and the updates thrown away: a copy of the parameters alone into a new model that then trained."""
    for norm in planting.modules:
        _virgin(norm, 5000)


def reset(planting: Planting) -> None:
    """load_state_dict(strict=False) of a file without buffers: trained weights over new statistics."""
    for norm in planting.modules:
        _virgin(norm, 0)


def reset_with_a_trained_bias(planting: Planting) -> None:
    """Only one bias of one channel is not 0: it was trained all the same."""
    for norm in planting.modules:
        _virgin(norm, 0)
        nn.init.ones_(norm.weight)
        nn.init.zeros_(norm.bias)
        norm.bias.data[-1] = 1e-6


def reset_with_a_weight_beyond_one(planting: Planting) -> None:
    """Weights of [0, 1] but for one: no initialiser draws that."""
    for norm in planting.modules:
        _virgin(norm, 0)
        nn.init.zeros_(norm.bias)
        norm.weight.data = torch.linspace(0.1, 0.9, norm.num_features)
        norm.weight.data[0] = 1.11


def reset_with_a_drawn_weight(planting: Planting) -> None:
    """As PyTorch before 1.2 drew it from U(0, 1): nothing shows that it was trained."""
    for norm in planting.modules:
        _virgin(norm, 0)
        nn.init.zeros_(norm.bias)
        norm.weight.data = torch.linspace(0.05, 1.0, norm.num_features)


def never_ran(planting: Planting) -> None:
    """An unused branch: as it was built, while the others have moved."""
    for norm in planting.modules:
        norm.reset_parameters()


def fresh(planting: Planting) -> None:
    """A model that was never trained."""
    never_ran(planting)


def fresh_as_dcgan(planting: Planting) -> None:
    """The same, its weights drawn from N(1, 0.02)."""
    for norm in planting.modules:
        norm.reset_parameters()
        if norm.affine:
            norm.weight.data = torch.linspace(0.95, 1.05, norm.num_features)


def absorbed(planting: Planting) -> None:
    """As Caffe2's frozen norm is converted: mean 0, variance 1 - epsilon, no counters."""
    for norm in planting.modules:
        norm.running_mean.zero_()
        norm.running_var.fill_(1.0 - 1e-5)
        norm.num_batches_tracked = None
    forget_versions(planting)


def one_mean_moved(planting: Planting) -> None:
    """Mean 0 and variance 1 but for one channel."""
    for norm in planting.modules:
        _virgin(norm, 5000)
        norm.running_mean[-1] = 1e-3


def one_forward_of_zeros(planting: Planting) -> None:
    """A stride probe in training mode."""
    _dry_run(planting, 1)


def two_forwards_of_zeros(planting: Planting) -> None:
    """Two of them."""
    _dry_run(planting, 2)


def forty_forwards_of_zeros(planting: Planting) -> None:
    """0.9⁴⁰ = 0.015."""
    _dry_run(planting, 40)


def zeros_before_loaded_weights(planting: Planting) -> None:
    """The counter of another model beside the variance of one forward of zeros."""
    _dry_run(planting, 1, counted=5000)


def zeros_but_one_mean(planting: Planting) -> None:
    """One channel of the mean is not 0: it saw data."""
    _dry_run(planting, 1, counted=5000)
    for norm in planting.modules:
        norm.running_mean[0] = 1e-3


def zeros_but_one_variance(planting: Planting) -> None:
    """One channel of the variance is another one."""
    _dry_run(planting, 1, counted=5000)
    for norm in planting.modules:
        norm.running_var[-1] = 0.91


def no_power(planting: Planting) -> None:
    """One variance of 0.85, which no number of forwards of zeros leaves of 1 at momentum 0.1."""
    _dry_run(planting, 1)
    for norm in planting.modules:
        norm.running_var.fill_(0.85)


def _virgin(norm: nn.BatchNorm2d, counter: int) -> None:
    norm.reset_running_stats()
    norm.num_batches_tracked.fill_(counter)


def _dry_run(planting: Planting, forwards: int, counted: int | None = None) -> None:
    """The variance as torch's kernel leaves it: float32, one update after the other."""
    for norm in planting.modules:
        norm.momentum = 0.1
        norm.reset_running_stats()
        for _ in range(forwards):
            torch.nn.functional.batch_norm(
                torch.zeros(4, norm.num_features), norm.running_mean, norm.running_var, training=True, momentum=0.1
            )
        norm.num_batches_tracked.fill_(forwards if counted is None else counted)


def all_trained(net: nn.Module) -> list[str]:
    """All norms of a net of several, each with trained weights."""
    names = several(net)
    return names if names == with_trained_affines(net) else []


def only_norms(net: nn.Module) -> list[str]:
    """All norms, where each has weights and there is more than one."""
    names = several(net)
    return names if all(net.get_submodule(name).affine for name in names) else []


def beside_others(net: nn.Module) -> list[str]:
    """Norms with weights of a net that has others."""
    return [name for name in several(net) if net.get_submodule(name).affine]


_RESET = [
    *(
        Fault(
            "reset, the counter kept",
            "BN103",
            reset_and_counted,
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            # All at once and without counters it may be a conversion that absorbed the statistics.
            all_trained if scope is Scope.ALL else with_trained_affines,
            needs=COUNTED if scope is Scope.ALL else STATISTICS,
            also=MEASURED,
            only=NAMED if scope is Scope.ALL else frozenset(),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(name, "BN103", plant, Severity.ERROR, Question.BUFFERS, targets=targets, needs=STATISTICS, also=MEASURED)
        for name, plant, targets in (
            ("reset, the counter too", reset, with_trained_affines),
            ("reset, a bias of 1e-6", reset_with_a_trained_bias, beside_others),
            ("reset, a weight of 1.11", reset_with_a_weight_beyond_one, beside_others),
        )
    ),
    *(
        Fault(
            name,
            "BN103",
            plant,
            Severity.WARNING,
            Question.BUFFERS,
            targets=beside_others,
            needs=STATISTICS,
            also=MEASURED,
            leaves_open=True,  # an unused branch, which does no harm, or one that is used: the file does not say
        )
        for name, plant in (
            ("never ran", never_ran),
            ("never ran, weights of U(0, 1)", reset_with_a_drawn_weight),
        )
    ),
    *(
        Fault(
            name,
            "BN103",
            plant,
            Severity.NOTE,
            scope=Scope.ALL,
            targets=only_norms,
            needs=STATISTICS,
            also=MEASURED,
            whole=True,
        )
        for name, plant in (("fresh", fresh), ("fresh, weights of N(1, 0.02)", fresh_as_dcgan), ("absorbed", absorbed))
    ),
    Fault("one mean moved", "BN103", one_mean_moved, None, targets=several, also=MEASURED, unnoted=True),
]
_DRY_RUNS = [
    *(
        Fault(
            name,
            "BN104",
            plant,
            Severity.WARNING,
            Question.BUFFERS,
            scope,
            needs=STATISTICS,
            also=MEASURED,
        )
        for name, plant in (
            ("one forward of zeros", one_forward_of_zeros),
            ("two forwards of zeros", two_forwards_of_zeros),
            ("40 forwards of zeros", forty_forwards_of_zeros),
            ("zeros before loaded weights", zeros_before_loaded_weights),
        )
        for scope in ((Scope.ALL, Scope.ONE) if plant is one_forward_of_zeros else (Scope.ONE,))
    ),
    *(
        Fault(name, "BN104", plant, None, also=MEASURED, unnoted=True)
        for name, plant in (
            ("zeros but one mean", zeros_but_one_mean),
            ("zeros but one variance", zeros_but_one_variance),
        )
    ),
    Fault(
        "no power of 0.9",
        "BN104",
        no_power,
        None,
        also=(*MEASURED, "BN105"),  # one update is few, whatever it was of
        unnoted=True,
        # Where the momentum is not known, one of 0.15 explains it.
        only=frozenset(CARRIERS) - STATES,
    ),
]
FAULTS = [*_RESET, *_DRY_RUNS]
