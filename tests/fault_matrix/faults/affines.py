"""BN114, BN115 and BN116: tensors of different lengths, and weights that are no numbers or all 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fault_matrix.faults.saved_state import MEASURED, STATES
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked, with_trained_affines
from onnx import numpy_helper
from torch import nn

from bnaudit.results import Question, Severity

VALUES = frozenset({Facet.STATISTICS})
GRAPHS = frozenset({"ONNX", "ONNX by dynamo"})
Plant = Callable[[Planting], None]
Cut = Callable[[Any], Any]


def cut(entry: str, kept: Cut) -> Plant:
    """Pruned without this tensor, or a converter that kept one value of it."""

    def plant(planting: Planting) -> None:
        if planting.carrier.name in GRAPHS:
            planting.graph_edits.append(lambda graph: _cut_initializers(graph, planting.layers, entry, kept))
            return
        for norm in planting.modules:
            shorter = kept(getattr(norm, entry).detach())
            setattr(norm, entry, nn.Parameter(shorter) if entry in ("weight", "bias") else shorter)

    return plant


def _cut_initializers(graph: Any, layers: tuple[str, ...], entry: str, kept: Cut) -> None:
    names = {f"{layer}.{entry}" for layer in layers}
    for tensor in graph.graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(numpy_helper.from_array(kept(numpy_helper.to_array(tensor)), tensor.name))


def misnamed(planting: Planting) -> None:
    """All four tensors were pruned alike, and the number in the module was not: it runs."""
    for norm in planting.modules:
        norm.num_features += 1


def in_the_weight(value: float) -> Plant:
    """One step with a gradient that was no number."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            norm.weight.data[_channels(planting, norm)] = value

    return plant


def in_the_bias(value: float) -> Plant:
    """The same."""

    def plant(planting: Planting) -> None:
        for norm in planting.modules:
            norm.bias.data[_channels(planting, norm)] = value

    return plant


def switched_off(planting: Planting) -> None:
    """The weight of a trained layer is 0 in every channel."""
    for norm in planting.modules:
        norm.weight.data.zero_()


def all_but_one_channel_off(planting: Planting) -> None:
    """Pruned channels are common and healthy, however many."""
    for norm in planting.modules:
        norm.weight.data[1:] = 0.0
        norm.weight.data[0] = 1e-30


def zero_at_construction(planting: Planting) -> None:
    """A zero-init residual of a model that was never trained."""
    for module in planting.net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_parameters()
    for norm in planting.modules:
        norm.weight.data.zero_()


def _channels(planting: Planting, norm: Any) -> int | slice:
    return int(planting.rng.integers(norm.weight.numel())) if planting.scope is Scope.CHANNEL else slice(None)


def wide(net: nn.Module) -> list[str]:
    """Norms with weights and with channels to cut."""
    norms = [(name, net.get_submodule(name)) for name in tracked(net)]
    return [name for name, norm in norms if norm.num_features > 2 and norm.affine]


def without_statistics(net: nn.Module) -> list[str]:
    """Layer and group norms with weight and bias, over channels alone."""
    norms = [(name, module) for name, module in net.named_modules() if isinstance(module, (nn.LayerNorm, nn.GroupNorm))]
    return [name for name, norm in norms if norm.weight is not None and norm.weight.ndim == 1 and norm.bias is not None]


def alive(net: nn.Module) -> list[str]:
    """Norms with trained weights, in a net where none is 0 throughout."""
    dead = [name for name in tracked(net) if _is_dead(net.get_submodule(name))]
    return [] if dead else with_trained_affines(net)


def _is_dead(norm: Any) -> bool:
    return norm.affine and not bool(norm.weight.any())


_LENGTHS = [
    *(
        Fault(
            name,
            "BN114",
            cut(entry, kept),
            Severity.ERROR,
            Question.BUFFERS,
            scope,
            wide,
            # A norm that does not fit does not run, so that no exporter writes it: the finished graph is cut.
            only=STATES | GRAPHS | {"pickled module"},
        )
        for name, entry, kept, scope in (
            ("running_mean one channel short", "running_mean", lambda tensor: tensor[:-1], Scope.ONE),
            ("running_var one channel short", "running_var", lambda tensor: tensor[:-1], Scope.ALL),
            ("running_var one channel short", "running_var", lambda tensor: tensor[:-1], Scope.ONE),
            ("weight one channel short", "weight", lambda tensor: tensor[:-1], Scope.ONE),
            ("bias one channel short", "bias", lambda tensor: tensor[:-1], Scope.ONE),
            ("running_mean of one value", "running_mean", lambda tensor: tensor[:1], Scope.ONE),
        )
    ),
    Fault(
        "num_features one too many",
        "BN114",
        misnamed,
        Severity.NOTE,
        targets=wide,
        needs=frozenset({Facet.CLASSES}),
    ),
]
_NON_FINITE = [
    Fault(name, "BN115", plant, Severity.ERROR, scope=scope, targets=targets, needs=VALUES, also=MEASURED)
    for name, plant, scope, targets in (
        ("NaN in the weight", in_the_weight(float("nan")), Scope.ALL, wide),
        ("NaN in the weight", in_the_weight(float("nan")), Scope.CHANNEL, wide),
        ("inf in the bias", in_the_bias(float("inf")), Scope.ONE, wide),
        ("-inf in the bias", in_the_bias(float("-inf")), Scope.CHANNEL, wide),
        ("NaN in the weight without statistics", in_the_weight(float("nan")), Scope.CHANNEL, without_statistics),
        ("inf in the bias without statistics", in_the_bias(float("inf")), Scope.ALL, without_statistics),
    )
]
_DEAD = [
    *(
        # The layers behind it receive a constant, which is not what their statistics were measured on.
        Fault(
            "switched off",
            "BN116",
            switched_off,
            Severity.NOTE,
            scope=scope,
            targets=alive,
            needs=VALUES,
            also=MEASURED,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(name, "BN116", plant, None, targets=alive, also=also, unnoted=True)
        for name, plant, also in (
            ("all but one channel off", all_but_one_channel_off, MEASURED),
            # Beside norms of another class that have moved, such a layer is one that never ran.
            ("0 at construction", zero_at_construction, ("BN103", *MEASURED)),
        )
    ),
]
FAULTS = [*_LENGTHS, *_NON_FINITE, *_DEAD]
