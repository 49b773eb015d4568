"""BN301: dynamic quantization, whose activations are rounded in the range of their whole batch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from fault_matrix.faults.places import moves_anchors, plant_where_it_shows, replace, scaled_with_inputs
from fault_matrix.values import Facet, Fault, Planting, Scope
from torch import nn

from bnaudit.results import Question, Severity

_HOLD_PACKED_WEIGHTS = frozenset({"pickled module", "scripted", "live module"})


def linear_layers(net: nn.Module) -> list[str]:
    return [name for name in scaled_with_inputs(net) if type(net.get_submodule(name)) is nn.Linear]


def quantized(planting: Planting) -> None:
    """The chosen layer, or the next whose rounding shows, in int8 with ranges made anew for each batch."""

    def damaged(name: str) -> nn.Module:
        net = copy.deepcopy(planting.net)
        replace(net, name, _in_int8(net.get_submodule(name)))
        return net.eval()

    plant_where_it_shows(planting, linear_layers(planting.net), damaged, moves_anchors)


def _in_int8(layer: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces a successor in another package
        return torch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {nn.Linear}, dtype=torch.qint8)[0]


FAULTS = [
    Fault(
        "dynamic quantization",
        "BN301",
        quantized,
        Severity.ERROR,
        Question.NEIGHBOURS,
        Scope.ONE,
        targets=linear_layers,
        needs=frozenset({Facet.FORWARD, Facet.RUNS}),
        measured=True,
        only=_HOLD_PACKED_WEIGHTS,
    )
]
