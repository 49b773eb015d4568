"""BN101, BN102 and BN118: statistics and counters that are not in the file, or cannot be read there."""

from __future__ import annotations

import torch
from fault_matrix.architectures.kinds_of_batch_norm import FrozenBatchNorm2d
from fault_matrix.faults.saved_state import (
    COUNTER,
    MEASURED,
    PICKLED_STATES,
    STATES,
    STATISTICS,
    WHOLE_MODULES,
    all_with_weights,
    change,
    drop,
    forget_versions,
    named_like_others,
    with_siblings,
    without_siblings,
)
from fault_matrix.values import Facet, Fault, Planting, Scope

from bnaudit.results import Question, Severity

STATE = frozenset({Facet.STATE})
VERSIONS = frozenset({Facet.STATE, Facet.VERSIONS})


def mean_dropped(planting: Planting) -> None:
    """A converter that knows three of the four tensors: the layer is torn."""
    drop(planting, "running_mean")


def variance_dropped(planting: Planting) -> None:
    """The same with the variance."""
    drop(planting, "running_var")


def statistics_dropped(planting: Planting) -> None:
    """Floating buffers left out, the whole-number counter kept: it proves that there were statistics."""
    drop(planting, *STATISTICS)


def parameters_alone(planting: Planting) -> None:
    """`named_parameters()` in place of `state_dict()`."""
    drop(planting, *STATISTICS, COUNTER)


def parameters_alone_of_a_copy(planting: Planting) -> None:
    """The same, without the versions of the classes."""
    parameters_alone(planting)
    forget_versions(planting)


def on_the_meta_device(planting: Planting) -> None:
    """Saved before the model was given real tensors: shapes and no values."""
    for norm in planting.modules:
        norm.running_mean, norm.running_var = norm.running_mean.to("meta"), norm.running_var.to("meta")


def emptied(planting: Planting) -> None:
    """What a sharding trainer leaves of tensors that live elsewhere."""
    for norm in planting.modules:
        norm.running_mean, norm.running_var = torch.empty(0), torch.empty(0)


def buffers_removed(planting: Planting) -> None:
    """A conversion that deleted the buffers of a layer whose flag says that it tracks them."""
    for norm in planting.modules:
        norm.running_mean = norm.running_var = None


def counter_dropped(planting: Planting) -> None:
    """PyTorch before 0.4.1 had none, and converters leave it out."""
    drop(planting, COUNTER)


def counter_dropped_from_a_copy(planting: Planting) -> None:
    """Without versions a strict load fills it in, and a frozen norm, which has none, looks the same."""
    drop(planting, COUNTER)
    forget_versions(planting)
    frozen = [name for name, norm in planting.net.named_modules() if isinstance(norm, FrozenBatchNorm2d)]
    planting.located = (*planting.layers, *frozen)


def counter_of_a_cumulative_average(planting: Planting) -> None:
    """momentum=None, which weighs the next batch with 1 / (counter + 1), and no counter."""
    for norm in planting.modules:
        norm.momentum = norm.num_batches_tracked = None


def sparse_variance(planting: Planting) -> None:
    """A tensor that is not plain numbers is not read, and what was not read is not clean."""
    change(planting, "running_var", lambda tensor: tensor.to_sparse())


_MISSING = [
    Fault(name, "BN101", plant, Severity.ERROR, Question.BUFFERS, scope, needs=STATE, only=STATES)
    for name, plant in (
        ("running_mean dropped", mean_dropped),
        ("running_var dropped", variance_dropped),
        ("statistics dropped, the counter kept", statistics_dropped),
    )
    for scope in (Scope.ALL, Scope.ONE)
]
_CANNOT_TELL = [
    Fault(
        "parameters alone beside complete siblings",
        "BN101",
        parameters_alone,
        Severity.ERROR,
        Question.BUFFERS,
        targets=with_siblings,
        # Version 2 of the class and the sibling together prove it; without versions it may be another norm.
        needs=VERSIONS,
        only=STATES,
    ),
    Fault(
        "parameters alone, no sibling",
        "BN101",
        parameters_alone,
        Severity.NOTE,
        Question.BUFFERS,
        targets=without_siblings,
        # Version 2 says batch or instance norm, and both can be without statistics.
        needs=VERSIONS,
        only=PICKLED_STATES,
        whole=True,
        leaves_open=True,
    ),
    Fault(
        "parameters alone of one layer, without versions",
        "BN101",
        parameters_alone_of_a_copy,
        Severity.NOTE,
        Question.BUFFERS,
        # Weight and bias may be those of a layer norm; only a name like that of complete layers speaks against it.
        targets=named_like_others,
        needs=STATE,
        only=STATES,
        whole=True,
        leaves_open=True,
    ),
    *(
        Fault(
            name,
            "BN101",
            plant,
            Severity.NOTE,
            Question.BUFFERS,
            Scope.ALL,
            all_with_weights,
            needs=STATE,
            only=STATES,
            whole=True,
            leaves_open=True,
        )
        for name, plant in (
            ("parameters alone", parameters_alone),
            ("parameters alone, without versions", parameters_alone_of_a_copy),
        )
    ),
]
_WITHOUT_VALUES = [
    *(
        Fault(
            "named without values",
            "BN101",
            on_the_meta_device,
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            # A live module with such tensors is refused: it cannot be run.
            only=PICKLED_STATES | {"pickled module"},
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            "emptied",
            "BN101",
            emptied,
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            only=STATES | WHOLE_MODULES,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    Fault(
        "buffers removed from a layer that tracks",
        "BN101",
        buffers_removed,
        Severity.ERROR,
        Question.BUFFERS,
        # A state dict shows it by the counter, a module and a script by the flag.
        only=STATES | WHOLE_MODULES | {"scripted"},
        # A run shows that it normalizes with the batch instead, which may not be of one.
        also=("BN301", "BN303", *MEASURED),
    ),
]
_COUNTERS = [
    *(
        Fault(
            "counter dropped",
            "BN102",
            counter_dropped,
            Severity.WARNING,
            Question.BUFFERS,
            scope,
            needs=VERSIONS,
            only=PICKLED_STATES,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            "counter dropped, without versions",
            "BN102",
            counter_dropped_from_a_copy,
            Severity.NOTE,
            scope=scope,
            needs=STATE,
            only=STATES,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    Fault(
        "counter of a cumulative average dropped",
        "BN102",
        counter_of_a_cumulative_average,
        Severity.ERROR,
        Question.BUFFERS,
        needs=frozenset({Facet.MOMENTUM, Facet.COUNTERS}),
        only=WHOLE_MODULES | {"scripted"},
    ),
]
_UNREAD = [
    Fault(
        "sparse variance",
        "BN118",
        sparse_variance,
        Severity.NOTE,
        Question.BUFFERS,
        scope,
        needs=STATE,
        only=PICKLED_STATES,
        whole=True,
        leaves_open=True,
    )
    for scope in (Scope.ALL, Scope.ONE)
]
FAULTS = [*_MISSING, *_CANNOT_TELL, *_WITHOUT_VALUES, *_COUNTERS, *_UNREAD]
