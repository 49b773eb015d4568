"""BN606: the same inputs give other outputs than in the healthy net, or the same to rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from fault_matrix.architectures.recurrent import Streaming
from fault_matrix.architectures.stochastic import AlwaysDropout
from fault_matrix.faults.places import classifiers, run
from fault_matrix.values import Facet, Fault, Planting, Scope, tracked
from torch import nn

from bnaudit.results import Severity

RUNNING = frozenset({"pickled module", "live module", "scripted", "traced", "exported", "ONNX", "ONNX, folded"})
_BASELINES = {"": "same", " against a pickled module": "pickled module"}
_RUNS = frozenset({Facet.RUNS})


def _is_a_reference(net: nn.Module) -> bool:
    """Whether its outputs depend neither on random numbers nor on what ran before: else a difference proves nothing."""
    return not any(isinstance(module, (AlwaysDropout, Streaming)) for module in net.modules())


def last_layers(net: nn.Module) -> list[str]:
    """The last one, where its weight is a parameter and not made of others at every forward."""
    plain = [name for name in classifiers(net) if "weight" in net.get_submodule(name)._parameters]
    return plain if _is_a_reference(net) else []


def scale_weights(planting: Planting, factor: float) -> None:
    for module in planting.modules:
        module.weight.data *= factor


def round_weights(planting: Planting) -> None:
    """Every weight to the next float32: what another way to compute or to store them leaves."""
    with torch.no_grad():
        for value in planting.net.parameters():
            value.copy_(torch.nextafter(value, torch.full_like(value, torch.inf)))


def norms_that_matter(net: nn.Module) -> list[str]:
    return tracked(net) if _is_a_reference(net) else []


def _on_one_shape(planting: Planting, plant: Callable[[Planting], None]) -> None:
    """Both sides are run on samples of one shape: not on utterances at their own lengths."""
    plant(planting)
    planting.options["inputs"] = planting.inputs[0] if len(planting.inputs) == 1 else planting.inputs


def _faults(name: str, severity: Severity | None, plant: Callable[[Planting], None], **more: Any) -> list[Fault]:
    """In its own kind of file, and against a pickled module."""
    return [
        Fault(
            f"{name}{words}",
            "BN606",
            partial(_on_one_shape, plant=plant),
            severity,
            needs=_RUNS,
            measured=True,
            unnoted=severity is None,
            baseline=baseline,
            only=RUNNING - ({baseline} if words else set()),
            **more,
        )
        for words, baseline in _BASELINES.items()
    ]


def change_one_norm(planting: Planting) -> None:
    """An epsilon of the size of the variance; of one whose answers reach the outputs, which is where they part."""
    planting.layers = (_reaching(planting),)
    (norm,) = planting.modules
    norm.eps = float(norm.running_var.median())


def _reaching(planting: Planting) -> str:
    """The chosen norm, or the first one behind which the outputs change with it."""
    few = tuple(value[:8] for value in planting.inputs)
    before = run(planting.net, few)
    for name in (*planting.layers, *tracked(planting.net)):
        norm: Any = planting.net.get_submodule(name)
        held, norm.eps = norm.eps, float(norm.running_var.median())
        moved = any(not torch.allclose(one, other) for one, other in zip(before, run(planting.net, few), strict=True))
        norm.eps = held
        if moved:
            return name
    raise ValueError("no norm of the net reaches its outputs")


FAULTS = [
    *_faults(
        "the last layer's weights larger by a tenth",
        Severity.ERROR,
        plant=partial(scale_weights, factor=1.1),
        scope=Scope.ONE,
        targets=last_layers,
        whole=True,
        also=("BN602", "BN605"),  # where the last layer is a norm
    ),
    *_faults(
        "the last layer's weights larger by a thousandth",
        Severity.ERROR,
        plant=partial(scale_weights, factor=1.001),
        scope=Scope.ONE,
        targets=last_layers,
        whole=True,
        also=("BN602", "BN605"),
    ),
    *_faults("every weight by one step", None, plant=round_weights, scope=Scope.ALL, targets=last_layers),
    *_faults(
        "the epsilon of a norm",
        Severity.ERROR,
        plant=change_one_norm,
        scope=Scope.ONE,
        targets=norms_that_matter,
        also=("BN604", "BN605"),
    ),
]
