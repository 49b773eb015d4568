"""BN204, BN205, BN208, BN209, BN210: tracking, momentum, epsilon and kind of norms, which no state dict holds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from fault_matrix.faults.places import replace
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked
from torch import nn

from bnaudit.results import Question, Severity

FLAGGED = frozenset({"pickled module", "scripted", "live module"})
TOLD_BY_NORMS = frozenset({*FLAGGED, "traced", "exported"})
_NAMED = TOLD_BY_NORMS | {"ONNX", "ONNX by dynamo", "state dict", "safetensors"}
"""A folded graph keeps the epsilon of the norms that it did not fold, and of no others."""


def that_train(net: nn.Module) -> list[str]:
    """Batch norms that train() puts into training mode: some nets keep those of their backbone in eval mode."""
    trained = copy.deepcopy(net).train()
    return [name for name in tracked(net) if trained.get_submodule(name).training]


def several(net: nn.Module) -> list[str]:
    """Batch norms, where there are at least three with one epsilon: of two nobody can say which is the odd one."""
    norms = [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    names = tracked(net)
    return names if len(names) > 2 and len({norm.eps for norm in norms}) == 1 else []


def of_one_process(net: nn.Module) -> list[str]:
    """Batch norms with statistics, in a net without any SyncBatchNorm of its own."""
    return [] if any(isinstance(module, nn.SyncBatchNorm) for module in net.modules()) else tracked(net)


def without_statistics(planting: Planting) -> None:
    """As `track_running_stats=False` builds it."""
    for norm in planting.modules:
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = norm.num_batches_tracked = None


def tracking_switched_off(planting: Planting) -> None:
    """What some trainers' `freeze` does."""
    for norm in planting.modules:
        norm.track_running_stats = False


def momentum(planting: Planting, value: float | None, training: bool) -> None:
    planting.in_training_mode = training
    for norm in planting.modules:
        norm.momentum = value


def epsilon(planting: Planting, factor: float) -> None:
    for norm in planting.modules:
        norm.eps *= factor


def epsilon_rounded(planting: Planting) -> None:
    """As a float32 holds it: 9.9999997e-06."""
    import numpy as np

    for norm in planting.modules:
        norm.eps = float(np.float32(norm.eps))


def synchronized(planting: Planting) -> None:
    """`SyncBatchNorm.convert_sync_batchnorm`, of these layers."""
    for name, norm in zip(planting.layers, planting.modules, strict=True):
        replace(planting.net, name, nn.SyncBatchNorm.convert_sync_batchnorm(norm))


def synchronized_without_statistics(planting: Planting) -> None:
    synchronized(planting)
    without_statistics(planting)


def _momenta(
    name: str,
    value: float | None,
    severity: Severity | None,
    training: bool = True,
    only: frozenset[str] = FLAGGED,
    **more: Any,
) -> list[Fault]:
    """In all layers and in one. That the net is saved in training mode is told beside it."""
    plant: Callable[[Planting], None] = partial(momentum, value=value, training=training)
    also = ("BN201", "BN202") if training else ()
    shared: dict[str, Any] = {"needs": frozenset({Facet.MOMENTUM}), "also": also, "only": only, **more}
    targets = that_train if training else tracked
    return [
        Fault(name, "BN208", plant, severity, scope=scope, targets=targets, **shared)
        for scope in (Scope.ALL, Scope.ONE)
    ]


FAULTS = [
    *(
        Fault(
            "a batch norm that keeps no statistics",
            "BN204",
            without_statistics,
            Severity.WARNING,
            Question.NEIGHBOURS,
            scope,
            needs=frozenset({Facet.EPSILON}),  # what tells a norm without statistics from an affine layer: it is code
            instead=("BN210", "BN301", "BN303"),  # where it is a SyncBatchNorm; where samples are seen to mix in it
            also=("BN403", "BN404"),
            only=TOLD_BY_NORMS,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            "tracking switched off over statistics",
            "BN205",
            tracking_switched_off,
            Severity.WARNING,
            Question.FROZEN,
            scope,
            needs=frozenset({Facet.FLAGS}),
            only=FLAGGED | {"state dict", "safetensors"},  # in a trace or graph of eval mode nothing updates any more
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *_momenta("momentum 0.9 in training", 0.9, Severity.WARNING, only=FLAGGED | {"traced", "exported", "state dict"}),
    *_momenta("momentum 1 in training", 1.0, Severity.WARNING),
    *_momenta("momentum 0.5 in training", 0.5, Severity.WARNING),
    *_momenta("momentum 0.49 in training", 0.49, None, unnoted=True),
    *_momenta("momentum None in training", None, None, unnoted=True),
    *_momenta("momentum 0 in training", 0.0, Severity.WARNING),
    *_momenta(  # a script in eval mode only infers, and momentum has no effect there
        "momentum 0 in eval", 0.0, Severity.NOTE, training=False, only=frozenset({"pickled module", "live module"})
    ),
    *_momenta("momentum 0.9 in eval", 0.9, None, training=False, unnoted=True),
    Fault(
        "another epsilon",
        "BN209",
        partial(epsilon, factor=100.0),
        Severity.NOTE,
        targets=several,
        needs=frozenset({Facet.EPSILON}),
        only=_NAMED,
    ),
    Fault(
        "epsilon 0",
        "BN209",
        partial(epsilon, factor=0.0),
        Severity.WARNING,
        targets=several,
        needs=frozenset({Facet.EPSILON}),
        only=_NAMED,
    ),
    Fault(
        "the epsilon as a float32",
        "BN209",
        epsilon_rounded,
        None,
        targets=several,
        unnoted=True,
        only=TOLD_BY_NORMS | {"ONNX", "ONNX by dynamo", "ONNX, folded"},
    ),
    Fault(
        "another epsilon everywhere",
        "BN209",
        partial(epsilon, factor=100.0),
        None,
        scope=Scope.ALL,
        targets=several,
        unnoted=True,
        only=TOLD_BY_NORMS | {"ONNX", "ONNX by dynamo", "ONNX, folded"},
    ),
    *(
        Fault(
            "SyncBatchNorm left in",
            "BN210",
            synchronized,
            Severity.NOTE,
            None,
            scope,
            targets=of_one_process,
            needs=frozenset({Facet.CLASSES}),
            only=frozenset({"pickled module", "live module", "state dict"}),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            "SyncBatchNorm without statistics",
            "BN210",
            synchronized_without_statistics,
            Severity.ERROR,
            Question.NEIGHBOURS,
            scope,
            targets=of_one_process,
            needs=frozenset({Facet.CLASSES}),
            instead=("BN301",),
            also=("BN403", "BN404"),
            only=frozenset({"pickled module", "live module"}),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
]
