"""BN202 and BN211: what a graph itself computes with, edited into ONNX graphs, and norms written by hand.

The forms are those of the ONNX changelog: opsets 1 to 6 train while `is_test` is 0, its default; 7 to 13 with five
outputs; from 14 on with `training_mode` 1. Dropout: 1 to 6 alike, 7 to 11 never, from 12 on by its third input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from fault_matrix.faults.configuration import without_statistics
from fault_matrix.faults.places import replace
from fault_matrix.faults.saved_state import with_affine
from fault_matrix.values import Facet, Fault, Planting, Scope
from onnx import helper
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnaudit.results import Question, Severity

GRAPHS = frozenset({"ONNX", "ONNX by dynamo", "ONNX, folded"})


class OverTheBatch(nn.Module):
    """A norm spelled out with reductions over the batch, whose stored statistics are never used."""

    def __init__(self, norm: _BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = (
            nn.Parameter(norm.weight.detach()),
            nn.Parameter(norm.bias.detach()),
            norm.eps,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        axes = (0, 2, 3) if x.dim() == 4 else (0, 2) if x.dim() == 3 else (0,)
        shape = (1, -1) + (1,) * (x.dim() - 2)
        mean = x.mean(axes, keepdim=True)
        var = ((x - mean) ** 2).mean(axes, keepdim=True)
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight.reshape(shape) + self.bias.reshape(shape)


def _norms(graph: Any, layers: tuple[str, ...]) -> list[Any]:
    """The nodes that use the statistics of these layers."""
    means = {f"{layer}.running_mean" for layer in layers}
    return [node for node in graph.graph.node if node.op_type == "BatchNormalization" and node.input[3] in means]


def _set(node: Any, **attributes: int) -> None:
    kept = [each for each in node.attribute if each.name not in attributes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in attributes.items())])


def _relabel(graph: Any, opset: int) -> None:
    """Another opset for all of it: what is read are the norms."""
    for each in graph.opset_import:
        if not each.domain:
            each.version = opset


def _drop_training_mode(graph: Any) -> None:
    """The attribute is younger than these opsets."""
    for node in graph.graph.node:
        kept = [each for each in node.attribute if each.name != "training_mode"]
        del node.attribute[:]
        node.attribute.extend(kept)


def training_mode(graph: Any, layers: tuple[str, ...], value: int, outputs: int) -> None:
    """From opset 14 on."""
    for node in _norms(graph, layers):
        _set(node, training_mode=value)
        del node.output[1:]
        node.output.extend([f"{node.output[0]}_{number}" for number in range(1, outputs)])


def five_outputs(graph: Any, layers: tuple[str, ...], named: bool) -> None:
    """Opset 9. Outputs without a name are not there."""
    _relabel(graph, 9)
    _drop_training_mode(graph)
    for node in _norms(graph, layers):
        node.output.extend([f"{node.output[0]}_{number}" if named else "" for number in range(1, 5)])


def no_test_flag(graph: Any, layers: tuple[str, ...]) -> None:
    """Opset 6: `is_test` 1 in all the others."""
    _relabel(graph, 6)
    training = {node.output[0] for node in _norms(graph, layers)}
    for node in graph.graph.node:
        if node.op_type == "BatchNormalization" and node.output[0] not in training:
            _set(node, is_test=1)


def edited(planting: Planting, edit: Callable[..., None], **how: Any) -> None:
    planting.graph_edits.append(lambda graph: edit(graph, planting.layers, **how))


def old_dropout(planting: Planting, opset: int) -> None:
    """A Dropout behind the first node, as an old exporter left it in."""

    def edit(graph: Any) -> None:
        _relabel(graph, opset)
        _drop_training_mode(graph)
        if opset < 7:
            no_test_flag(graph, ())
        first = graph.graph.node[0]
        dropout = helper.make_node("Dropout", [first.output[0]], ["planted"], name="/planted/Dropout", ratio=0.5)
        for node in graph.graph.node[1:]:
            for number, name in enumerate(node.input):
                if name == first.output[0]:
                    node.input[number] = "planted"
        graph.graph.node.insert(1, dropout)

    planting.graph_edits.append(edit)
    planting.located = ("planted",)


def by_hand(planting: Planting) -> None:
    for name, norm in zip(planting.layers, planting.modules, strict=True):
        replace(planting.net, name, OverTheBatch(norm))


def _edit(name: str, severity: Severity | None, scope: Scope, edit: Callable[..., None], **how: Any) -> Fault:
    return Fault(
        name,
        "BN202",
        partial(edited, edit=edit, **how),
        severity,
        Question.EVAL_MODE,
        scope,
        needs=frozenset({Facet.STATISTICS, Facet.GRAPH}),
        unnoted=severity is None,
        only=frozenset({"ONNX", "ONNX by dynamo"}),
    )


FAULTS = [
    *(
        fault
        for scope in (Scope.ALL, Scope.ONE)
        for fault in (
            _edit("training_mode 1, three outputs", Severity.ERROR, scope, training_mode, value=1, outputs=3),
            _edit("training_mode 1, one output", Severity.ERROR, scope, training_mode, value=1, outputs=1),
            _edit("five outputs before opset 14", Severity.ERROR, scope, five_outputs, named=True),
            _edit("no is_test before opset 7", Severity.ERROR, scope, no_test_flag),
        )
    ),
    _edit("training_mode 0, written out", None, Scope.ALL, training_mode, value=0, outputs=1),
    _edit("five outputs, four of them not there", None, Scope.ALL, five_outputs, named=False),
    Fault(
        "dropout before opset 7",
        "BN202",
        partial(old_dropout, opset=6),
        Severity.ERROR,
        Question.EVAL_MODE,
        Scope.NET,
        only=frozenset({"ONNX"}),
    ),
    Fault(
        "dropout of opset 10",
        "BN202",
        partial(old_dropout, opset=10),
        None,
        Question.EVAL_MODE,
        Scope.NET,
        unnoted=True,
        only=frozenset({"ONNX"}),
    ),
    *(
        Fault(
            "a norm without tracking, exported",
            "BN211",
            without_statistics,
            Severity.ERROR,
            Question.NEIGHBOURS,
            scope,
            needs=frozenset({Facet.GRAPH}),
            only=frozenset({"ONNX by dynamo"}),  # the older exporter writes no norm without statistics
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            "a norm written by hand over the batch",
            "BN211",
            by_hand,
            Severity.WARNING,  # that the first axis is the batch is not in the file
            Question.NEIGHBOURS,
            scope,
            targets=with_affine,
            needs=frozenset({Facet.GRAPH}),
            only=GRAPHS,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
]
